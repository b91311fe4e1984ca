#include "common/core/model_memory.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline {
namespace {

constexpr double kFloat = 4;
constexpr double kBfloat16 = 2;

// "8,030,261,248"; beyond 10^15 "1.0e+18".
std::string Number(double count) {
  if (count >= 1e15) return absl::StrFormat("%.1e", count);
  std::string digits = absl::StrFormat("%.0f", count);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<size_t>(i), ",");
  }
  return digits;
}

MemoryPart Part(std::string what, double count, double bytes_each) {
  return {std::move(what), absl::StrCat(Number(count), " x ", Number(bytes_each), " B"),
          count * bytes_each};
}

MemoryPart PartInBlocks(std::string what, const LlamaTraining& training, double bytes_per_token) {
  const auto layers = static_cast<double>(training.size.layers);
  return {std::move(what),
          absl::StrCat(Number(layers), " blocks x ", Number(training.tokens), " tokens x ",
                       Number(bytes_per_token), " B"),
          layers * training.tokens * bytes_per_token};
}

// The logits that exist at once (LogitsChunkTokens), in float32, and their log-probabilities. Those
// of a chunk, in the products' type, may become their gradients in place.
MemoryPart Logits(const LlamaTraining& training) {
  const auto vocab_size = static_cast<double>(training.size.vocab_size);
  const double bytes = training.tokens * vocab_size * kFloat;
  const double chunks = std::max(1.0, std::ceil(bytes / static_cast<double>(kLogitsChunkBytes)));
  const double tokens = std::max(1.0, std::floor(training.tokens / chunks));
  const bool in_place = training.logits_in_place && chunks > 1;
  const double product = training.bf16 ? kBfloat16 : kFloat;
  const double each = in_place ? product : 2 * kFloat;
  return {in_place ? "logits of a chunk" : "logits at once, float32, and their log-probabilities",
          absl::StrCat(Number(tokens), " tokens x ", Number(vocab_size), " words x ", Number(each),
                       " B"),
          tokens * vocab_size * each};
}

MemoryPart RecomputedBlock(const LlamaTraining& training) {
  const double bytes = LlamaBlockActivationBytes(training.size, training.bf16);
  return {"one block, computed again",
          absl::StrCat(Number(training.tokens), " tokens x ", Number(bytes), " B"),
          training.tokens * bytes};
}

// Of a parameter, its gradient, and each value of the optimizer's state.
double ValueBytes(const LlamaTraining& training) {
  return training.bf16_weights ? kBfloat16 : kFloat;
}

// Those that a rank updates.
double ParametersOfRank(const LlamaTraining& training) {
  return std::ceil(LlamaParameters(training.size) / training.shards);
}

// Parameters of the blocks but for their two norms.
double BlockMatrices(const LlamaSize& size) {
  return static_cast<double>(size.layers) *
         (LlamaBlockParameters(size) - 2 * static_cast<double>(size.dim));
}

// What a rank of a sharded model has whole besides its part, without the blocks of stage 3. Those
// matrices that autocast would cast at each use are in its type.
std::vector<MemoryPart> WholeWeights(const LlamaTraining& training) {
  const double blocks = BlockMatrices(training.size);
  std::vector<MemoryPart> parts{Part("embedding, output projection and norms, whole, float32",
                                     LlamaParameters(training.size) - blocks, kFloat)};
  if (training.zero_stage == 3) return parts;
  parts.push_back(
      Part("matrices of the blocks, whole", blocks, training.bf16 ? kBfloat16 : kFloat));
  return parts;
}

// Of the forward pass: one block of stage 3.
std::vector<MemoryPart> GatheredBlock(const LlamaTraining& training) {
  if (training.shards == 1 || training.zero_stage != 3) return {};
  return {Part("matrices of one block, whole",
               BlockMatrices(training.size) / static_cast<double>(training.size.layers),
               training.bf16 ? kBfloat16 : kFloat)};
}

// Weights that autocast has cast for the forward pass. They are kept for the backward pass, unless
// that casts them again; a block's two norms are not cast.
std::vector<MemoryPart> Casts(const LlamaTraining& training) {
  const bool casts = training.bf16 && !training.bf16_weights;
  if (!casts || training.checkpoint_activations || training.shards > 1) return {};
  return {Part("matrices of the blocks in bfloat16", BlockMatrices(training.size), kBfloat16)};
}

std::vector<MemoryPart> Activations(const LlamaTraining& training) {
  if (!training.checkpoint_activations) {
    return {PartInBlocks("activations", training,
                         LlamaBlockActivationBytes(training.size, training.bf16)),
            Logits(training)};
  }
  const MemoryPart logits = Logits(training);
  const MemoryPart block = RecomputedBlock(training);
  return {PartInBlocks("inputs of the blocks, float32", training,
                       kFloat * static_cast<double>(training.size.dim)),
          block.bytes > logits.bytes ? block : logits};
}

void Append(const std::vector<MemoryPart>& more, std::vector<MemoryPart>& parts) {
  parts.insert(parts.end(), more.begin(), more.end());
}

}  // namespace

double LlamaBlockActivationBytes(const LlamaSize& size, bool bf16) {
  const double product = bf16 ? kBfloat16 : kFloat;
  const auto dim = static_cast<double>(size.dim);
  const int64_t head_dim = size.dim / size.heads;
  const auto kv_dim = static_cast<double>(head_dim * size.kv_heads);
  const auto ffn_dim = static_cast<double>(size.ffn_dim);
  return 2 * kFloat * dim + product * (4 * dim + 2 * kv_dim + 3 * ffn_dim);
}

double TotalBytes(const std::vector<MemoryPart>& parts) {
  double bytes = 0;
  for (const MemoryPart& part : parts) bytes += part.bytes;
  return bytes;
}

double LlamaCopyBytes(const LlamaTraining& training) {
  constexpr int kLevelFloats = 2;  // At least: residuals of means are few, if ranks are many.
  double bytes = ValueBytes(training) * (1 + training.optimizer_values);
  if (training.bf16_weights) bytes += kBfloat16;
  // A level that has both keeps point and reference once.
  const int level_floats = kLevelFloats * training.quantized_levels + training.outer_levels +
                           std::max(0, training.outer_levels - training.quantized_levels);
  bytes += kFloat * (level_floats + (training.quantized_gradients ? 1 : 0));
  return ParametersOfRank(training) * bytes;
}

std::vector<MemoryPart> LlamaMemory(const LlamaTraining& training) {
  const double parameters = ParametersOfRank(training);
  const double each = ValueBytes(training);
  const char* const type = training.bf16_weights ? "bfloat16" : "float32";
  const MemoryPart gradients = Part(absl::StrCat("gradients, ", type), parameters, each);
  std::vector<MemoryPart> always{Part(absl::StrCat("parameters, ", type), parameters, each)};
  if (training.bf16_weights) {
    always.push_back(Part("compensation of their rounding, bfloat16", parameters, kBfloat16));
  }
  if (training.optimizer_values > 0) {
    always.push_back(Part("optimizer state", parameters, each * training.optimizer_values));
  }
  if (training.outer_levels > 0) {
    always.push_back(
        Part("points and momenta of outer steps", parameters, 2 * kFloat * training.outer_levels));
  }
  if (training.quantized_levels > 0 && training.fragments > 0) {
    always.push_back(Part("rounding errors of averages", parameters, kFloat));
  } else if (training.quantized_levels > 0) {
    always.push_back(Part("references, changes and rounding errors of averages", parameters,
                          3 * kFloat * training.quantized_levels));
  }
  if (training.quantized_gradients) {
    always.push_back(Part("rounding errors of gradients", parameters, 2 * kFloat));
  }
  if (training.fragments > 0) {
    always.push_back(Part("an average under way, of a fragment",
                          std::ceil(parameters / training.fragments), 2 * kFloat));
  }
  if (training.copies > 0) {
    always.push_back(Part("copies of the state, its own and another rank's", training.copies,
                          LlamaCopyBytes(training)));
  }

  if (training.shards > 1) Append(WholeWeights(training), always);

  std::vector<MemoryPart> forward = always;
  Append(GatheredBlock(training), forward);
  Append(Casts(training), forward);
  if (training.gradients_stay) forward.push_back(gradients);
  Append(Activations(training), forward);

  std::vector<MemoryPart> update = always;
  if (!training.updates_in_backward) update.push_back(gradients);

  std::vector<MemoryPart> start;
  if (training.shards > 1) {
    start.push_back(Part("parameters before they are divided, float32",
                         LlamaParameters(training.size), kFloat));
  }
  return std::max({forward, update, start},
                  [](const std::vector<MemoryPart>& a, const std::vector<MemoryPart>& b) {
                    return TotalBytes(a) < TotalBytes(b);
                  });
}

}  // namespace paceline
