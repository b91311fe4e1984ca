#include "common/core/model_size.h"

namespace paceline {

int64_t LlamaEmbeddingParameters(const LlamaSize& size) { return size.vocab_size * size.dim; }

int64_t LlamaParameters(const LlamaSize& size) {
  const int64_t kv_dim = size.dim / size.heads * size.kv_heads;
  const int64_t attention = 2 * size.dim * size.dim + 2 * size.dim * kv_dim;
  const int64_t feed_forward = 3 * size.dim * size.ffn_dim;
  const int64_t norms = 2 * size.dim;
  const int64_t embeddings = (size.tie_embeddings ? 1 : 2) * LlamaEmbeddingParameters(size);
  return size.layers * (attention + feed_forward + norms) + size.dim + embeddings;
}

double FlopsPerToken(const TransformerCost& cost, int64_t sequence_length) {
  const auto products = static_cast<double>(cost.parameters - cost.lookup_parameters);
  const auto attention = static_cast<double>(cost.layers * cost.heads) *
                         static_cast<double>(cost.key_dim + cost.value_dim) *
                         static_cast<double>(sequence_length);
  return 6 * products + 6 * attention;
}

TransformerCost LlamaCost(const LlamaSize& size) {
  TransformerCost cost;
  cost.parameters = LlamaParameters(size);
  cost.lookup_parameters = size.tie_embeddings ? 0 : LlamaEmbeddingParameters(size);
  cost.layers = size.layers;
  cost.heads = size.heads;
  cost.key_dim = size.dim / size.heads;
  cost.value_dim = cost.key_dim;
  return cost;
}

int64_t LogitsChunkTokens(int64_t tokens, int64_t vocab_size, int64_t chunk_bytes) {
  const int64_t bytes = tokens * vocab_size * static_cast<int64_t>(sizeof(float));
  const int64_t chunks = (bytes + chunk_bytes - 1) / chunk_bytes;
  return (tokens + chunks - 1) / chunks;
}

}  // namespace paceline
