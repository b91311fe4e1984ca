// Which tensor of a file goes into which of a model, with the tolerance of load_state_dict and
// transformers where it is known to be harmless.
#ifndef WORKER_TRAINER_CHECKPOINT_WEIGHTS_FIT_H_
#define WORKER_TRAINER_CHECKPOINT_WEIGHTS_FIT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/checkpoint/weights_file.h"
#include "worker/trainer/model/model.h"

namespace paceline {

struct WeightsFit {
  std::map<std::string, std::string> sources;  // A parameter's or buffer's name -> the file's.
  std::vector<std::string> notes;              // What was passed over, for people.
};

// Harmless, and noted:
//   - prefixes and parts of names that wrappers add: module. (DataParallel), _orig_mod.
//     (torch.compile), _fsdp_wrapped_module., _checkpoint_wrapped_module.;
//   - what a model computes itself and older files hold: rotary_emb.inv_freq, position_ids, the
//     causal masks of GPT-2;
//   - a num_batches_tracked that the file lacks, as files of before PyTorch 0.4.1 do;
//   - a tensor of several names in the model, of which the file has only some. If it has more, they
//     have to be equal.
// InvalidArgument otherwise, with all that differs (the first ten): a name that only one of both
// has, another shape, a type that is not a plain number of the same kind.
absl::StatusOr<WeightsFit> FitWeights(const FoundWeights& found, const Model& model);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_WEIGHTS_FIT_H_
