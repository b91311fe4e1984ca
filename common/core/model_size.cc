#include "common/core/model_size.h"

#include <algorithm>

namespace paceline {

int64_t LlamaEmbeddingParameters(const LlamaSize& size) { return size.vocab_size * size.dim; }

double LlamaBlockParameters(const LlamaSize& size) {
  const auto dim = static_cast<double>(size.dim);
  const auto kv_dim = static_cast<double>(size.dim / size.heads * size.kv_heads);
  const double attention = 2 * dim * dim + 2 * dim * kv_dim;
  const double feed_forward = 3 * dim * static_cast<double>(size.ffn_dim);
  const double norms = 2 * dim;
  return attention + feed_forward + norms;
}

double LlamaParameters(const LlamaSize& size) {
  const double embeddings =
      (size.tie_embeddings ? 1.0 : 2.0) * static_cast<double>(LlamaEmbeddingParameters(size));
  return static_cast<double>(size.layers) * LlamaBlockParameters(size) +
         static_cast<double>(size.dim) + embeddings;
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
  cost.parameters = static_cast<int64_t>(LlamaParameters(size));
  cost.lookup_parameters = size.tie_embeddings ? 0 : LlamaEmbeddingParameters(size);
  cost.layers = size.layers;
  cost.heads = size.heads;
  cost.key_dim = size.dim / size.heads;
  cost.value_dim = cost.key_dim;
  return cost;
}

int64_t LogitsChunkTokens(int64_t tokens, int64_t vocab_size, int64_t chunk_bytes) {
  const int64_t bytes = tokens * vocab_size * static_cast<int64_t>(sizeof(float));
  const int64_t chunks = std::max<int64_t>(1, (bytes + chunk_bytes - 1) / chunk_bytes);
  return (tokens + chunks - 1) / chunks;
}

}  // namespace paceline
