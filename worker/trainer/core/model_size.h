// How large a Llama is and how many floating-point operations its training takes, by formula.
#ifndef WORKER_TRAINER_CORE_MODEL_SIZE_H_
#define WORKER_TRAINER_CORE_MODEL_SIZE_H_

#include <cstdint>

namespace paceline {

// The sizes of docs/job-file.md. Requires: dim is a multiple of heads.
struct LlamaSize {
  int64_t dim = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t ffn_dim = 0;
  int64_t vocab_size = 0;
  bool tie_embeddings = false;
};

// Elements of all parameters; a tied embedding counts once.
int64_t LlamaParameters(const LlamaSize& size);

// Elements of the embedding of tokens, whether it is tied or not.
int64_t LlamaEmbeddingParameters(const LlamaSize& size);

// What the formula below depends on.
struct TransformerCost {
  int64_t parameters = 0;
  int64_t lookup_parameters = 0;  // Of an embedding that is looked up only: no products.
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t key_dim = 0;    // Of a head's queries and keys.
  int64_t value_dim = 0;  // Of a head's values.
};

// Of forward and backward pass per token of a sequence of `sequence_length`:
//   6 (N - N_lookup) + 6 L H (d_qk + d_v) S
// Two operations for each multiply-add, three passes (forward, gradients of activations,
// gradients of weights). Causal attention is counted in full and nothing that is computed
// again counts twice, as in the MFU of torchtitan and of the PaLM paper (appendix B).
double FlopsPerToken(const TransformerCost& cost, int64_t sequence_length);

// The cost of a Llama. A tied embedding is the output projection too, so nothing of it is
// a mere lookup.
TransformerCost LlamaCost(const LlamaSize& size);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_MODEL_SIZE_H_
