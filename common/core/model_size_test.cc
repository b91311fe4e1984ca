#include "common/core/model_size.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

// dim, layers, heads, kv_heads, ffn_dim, vocab_size, tied: the presets of proto/job_spec.proto.
constexpr LlamaSize kDebug{256, 6, 16, 16, 768, 2048, false};
constexpr LlamaSize k160m{768, 12, 12, 12, 2048, 50304, false};
constexpr LlamaSize k1b{2048, 16, 32, 8, 8192, 128256, true};
constexpr LlamaSize k8b{4096, 32, 32, 8, 14336, 128256, false};
constexpr LlamaSize k70b{8192, 80, 64, 8, 28672, 128256, false};

TEST(ModelSizeTest, ParametersOfThePublishedModels) {
  EXPECT_EQ(LlamaParameters(k8b), 8'030'261'248);  // Meta-Llama-3-8B.
  EXPECT_EQ(LlamaEmbeddingParameters(k8b), 525'336'576);
  EXPECT_EQ(LlamaParameters(k70b), 70'553'706'496);  // Meta-Llama-3-70B.
  EXPECT_EQ(LlamaParameters(k1b), 1'235'814'400);    // Llama-3.2-1B.
}

TEST(ModelSizeTest, ParametersOfTheSmallPresets) {
  // Each term by hand: attention, feed-forward, norms; last norm; embeddings.
  EXPECT_EQ(LlamaParameters(k160m),
            12 * (4 * 768 * 768 + 3 * 768 * 2048 + 2 * 768) + 768 + 2 * 50304 * 768);
  EXPECT_EQ(LlamaParameters(k160m), 162'220'800);
  EXPECT_EQ(LlamaParameters(kDebug),
            6 * (4 * 256 * 256 + 3 * 256 * 768 + 2 * 256) + 256 + 2 * 2048 * 256);
}

TEST(ModelSizeTest, KeysAndValuesAreSmallerWithGroupedQueries) {
  LlamaSize grouped = kDebug;
  grouped.kv_heads = 4;
  EXPECT_EQ(LlamaParameters(kDebug) - LlamaParameters(grouped), 6 * 2 * 256 * 12 * 16);
}

// The golden vectors that docs/models.md lists.
TEST(ModelSizeTest, FlopsPerTokenOfLlama8b) {
  EXPECT_EQ(FlopsPerToken(LlamaCost(k8b), 8192), 57'914'449'920.0);
}

TEST(ModelSizeTest, FlopsPerTokenOfLlama70b) {
  // 6 * (70,553,706,496 - 1,050,673,152) + 6 * 80 * 64 * (128 + 128) * 8192.
  EXPECT_EQ(FlopsPerToken(LlamaCost(k70b), 8192), 481'442'709'504.0);
}

TEST(ModelSizeTest, FlopsPerTokenOfATinyTransformer) {
  EXPECT_EQ(FlopsPerToken({1'000'000, 200'000, 2, 4, 16, 16}, 128), 4'996'608.0);
}

TEST(ModelSizeTest, ATiedEmbeddingIsNotSubtracted) {
  TransformerCost tied = LlamaCost(k8b);
  tied.lookup_parameters = 0;
  EXPECT_EQ(FlopsPerToken(tied, 8192), 61'066'469'376.0);
  EXPECT_EQ(LlamaCost(k1b).lookup_parameters, 0);
}

TEST(ModelSizeTest, LogitsOfSmallBatchesAreOneChunk) {
  EXPECT_EQ(LogitsChunkTokens(0, 50304), 0);
  // 4 bytes * 50304 * 1024 = 206,045,184 <= 268,435,456 < 4 bytes * 50304 * 2048.
  EXPECT_EQ(LogitsChunkTokens(1024, 50304), 1024);
  EXPECT_EQ(LogitsChunkTokens(2048, 50304), 1024);
  // 4 * 128256 * 8192 = 4,202,692,608 bytes: 15.7 chunks.
  EXPECT_EQ(LogitsChunkTokens(8192, 128256), 512);
}

TEST(ModelSizeTest, ChunksOfLogitsStayBelowTheLimitAndCoverAllTokens) {
  for (const int64_t limit : {4, 100, 1000}) {
    for (const int64_t vocab_size : {1, 7, 40}) {
      for (int64_t tokens = 1; tokens < 60; ++tokens) {
        const int64_t chunk = LogitsChunkTokens(tokens, vocab_size, limit);
        ASSERT_GE(chunk, 1);
        ASSERT_LE(chunk, tokens);
        ASSERT_EQ(chunk == tokens, tokens == 1 || tokens * vocab_size * 4 <= limit);
        // One token more than fits, since the number of chunks is whole.
        ASSERT_LE((chunk - 1) * vocab_size * 4, limit);
      }
    }
  }
}

}  // namespace
}  // namespace paceline
