// Formulas for the device memory that training a Llama takes on each rank, at least.
//
// They count what the trainer certainly keeps, not what an allocator, a runtime or an exchange with
// other ranks adds. So a device that has less cannot train the model; one that has slightly more
// may still run out.
#ifndef COMMON_CORE_MODEL_MEMORY_H_
#define COMMON_CORE_MODEL_MEMORY_H_

#include <string>
#include <vector>

#include "common/core/model_size.h"

namespace paceline {

struct LlamaTraining {
  LlamaSize size;
  double tokens = 1;  // Of a rank's forward pass: samples times sequence length.
  bool bf16 = false;  // Matrix products in bfloat16.
  // Weights, gradients and optimizer state too, with a compensation of each weight; else float32.
  bool bf16_weights = false;
  int shards = 1;  // Ranks that hold the float32 weights, gradients and optimizer state together.
  // With shards: 2, each rank has whole weights besides; 3, those of blocks one block at a time.
  int zero_stage = 2;
  bool checkpoint_activations = false;
  int optimizer_values = 0;          // Per parameter: 2 (AdamW), 1 (SGD with momentum) or 0 (SGD).
  bool gradients_stay = false;       // They are not freed before the next forward pass.
  bool updates_in_backward = false;  // Each is used and freed in the backward pass.
  bool logits_in_place = false;      // Those of a chunk become their gradients.
  // Gradients travel in a format of a byte: each parameter has two numbers of what is left out.
  bool quantized_gradients = false;
  // Of the ladder, in formats below fp32: each has a reference, a change and residuals of all
  // parameters; a streamed one residuals alone.
  int quantized_levels = 0;
  int outer_levels = 0;  // Each has a point and a momentum of all parameters.
  // Of the level with a streamed outer step: an average under way has what the rank has given to it
  // and their sum, or its residuals afterwards, each of a fragment. 0: there is none.
  int fragments = 0;
  int copies = 0;  // Of the state (LlamaCopyBytes), in the same memory (kCopiesKept).
};

// A rank with recovery.copy_every_steps keeps so many copies in host memory: the newest that are
// complete and the next ones, its own and another rank's.
inline constexpr int kCopiesKept = 4;

// Bytes of one copy, at least: of what the rank updates, and of what its quantised levels and
// gradients and its outer steps have.
double LlamaCopyBytes(const LlamaTraining& training);

// One kind of state or activations.
struct MemoryPart {
  std::string what;     // "gradients"
  std::string formula;  // "8,030,261,248 x 4 B"
  double bytes = 0;
};

// What is there at once when it is most: at the end of the forward pass, or at the optimizer's
// step. Requires: positive sizes, and dim is a multiple of heads.
std::vector<MemoryPart> LlamaMemory(const LlamaTraining& training);

double TotalBytes(const std::vector<MemoryPart>& parts);

// Bytes per token that a block keeps for its backward pass: residual stream and its sum with the
// attention (float32), both normalised, queries, keys, values, the attention's result, and three
// results of the feed-forward network.
double LlamaBlockActivationBytes(const LlamaSize& size, bool bf16);

}  // namespace paceline

#endif  // COMMON_CORE_MODEL_MEMORY_H_
