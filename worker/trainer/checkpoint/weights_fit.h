// Matches a file's tensors with a model's, as tolerant as load_state_dict and transformers where
// that is known to be harmless.
#ifndef WORKER_TRAINER_CHECKPOINT_WEIGHTS_FIT_H_
#define WORKER_TRAINER_CHECKPOINT_WEIGHTS_FIT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/checkpoint/weights_file.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

struct WeightsFit {
  std::map<std::string, std::string> sources;  // Model's name -> file's name.
  std::vector<std::string> notes;              // For people: what was skipped.
};

// Tolerates and notes:
//   - prefixes and parts of names that wrappers add: module. (DataParallel), _orig_mod.
//     (torch.compile), _fsdp_wrapped_module., _checkpoint_wrapped_module.;
//   - tensors in older files that the model computes itself: rotary_emb.inv_freq, position_ids,
//     GPT-2's causal masks;
//   - a missing num_batches_tracked, as in files from before PyTorch 0.4.1;
//   - a tensor with several names in the model, of which the file has only some. If it has several,
//     their values must be equal.
// Otherwise InvalidArgument, listing the first ten differences: names that only one side has, other
// shapes, types that are not plain numbers of the same kind.
absl::StatusOr<WeightsFit> FitWeights(const FoundWeights& found, const ModelTensors& model);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_WEIGHTS_FIT_H_
