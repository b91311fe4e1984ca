// Formulas for a Llama's size, for the floating-point operations that its training takes, and for
// the chunks in which its loss is computed.
#ifndef COMMON_CORE_MODEL_SIZE_H_
#define COMMON_CORE_MODEL_SIZE_H_

#include <cstdint>

namespace paceline {

// Sizes as in docs/job-file.md. Requires: dim is a multiple of heads.
struct LlamaSize {
  int64_t dim = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t ffn_dim = 0;
  int64_t vocab_size = 0;
  bool tie_embeddings = false;
};

// Number of parameters of one block. A whole number, exact below 2^53; so is the next.
double LlamaBlockParameters(const LlamaSize& size);

// Number of all parameters; a tied embedding counts once.
double LlamaParameters(const LlamaSize& size);

// Number of parameters of the token embedding, tied or not.
int64_t LlamaEmbeddingParameters(const LlamaSize& size);

// Inputs of the formula below.
struct TransformerCost {
  int64_t parameters = 0;
  int64_t lookup_parameters = 0;  // In embeddings that are only looked up, not multiplied.
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t key_dim = 0;    // Size of a head's queries and keys.
  int64_t value_dim = 0;  // Size of a head's values.
};

// Operations of forward and backward pass per token of a sequence of `sequence_length`:
//   6 (N - N_lookup) + 6 L H (d_qk + d_v) S
// Two operations for each multiply-add, three passes (forward, gradients of activations, gradients
// of weights). Causal attention counts in full and recomputation does not count, as in the MFU of
// torchtitan and of the PaLM paper (appendix B).
double FlopsPerToken(const TransformerCost& cost, int64_t sequence_length);

// The cost of a Llama. A tied embedding is also the output projection, so it does not count as a
// mere lookup.
TransformerCost LlamaCost(const LlamaSize& size);

// The float logits that a Llama's loss has at once take at most about this much.
inline constexpr int64_t kLogitsChunkBytes = int64_t{256} << 20;

// Tokens in a chunk of the loss of `tokens` tokens: all of them if their float logits
// [tokens, vocab_size] take at most `chunk_bytes`. More are divided into chunks of equal size (the
// last one may be shorter). Requires: tokens >= 0, the others are positive.
int64_t LogitsChunkTokens(int64_t tokens, int64_t vocab_size,
                          int64_t chunk_bytes = kLogitsChunkBytes);

}  // namespace paceline

#endif  // COMMON_CORE_MODEL_SIZE_H_
