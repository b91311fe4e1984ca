// The whole state of a rank's training as one piece of host memory: what a rank without a state
// gets when the ranks meet (generation/rendezvous.h), for its own seat, and what nobody else has of
// quantised averages and gradients.
//
//   header | parameters, optimizer, buffers, random numbers | what is attached: schemas, tensors
//          | levels: their sizes, references, residuals, momenta, what is given to an average
//          | the rest of gradients
//
// Ranks run the same program, so an image made by one is read by another.
//
// Torch's exceptions pass through.
#ifndef WORKER_TRAINER_COPIES_STATE_IMAGE_H_
#define WORKER_TRAINER_COPIES_STATE_IMAGE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/comm/host_copy.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/core/copy_keeper.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/loop/attachments.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

// What has a state. Attachments are null if there are none; otherwise they contain the optimizer's.
struct StateParts {
  const ModelTensors& model;
  const Optimizer& optimizer;
  Attachments* attachments;
  // As Strategy::Memory gives them: of quantised averages and those that end in outer steps, and of
  // quantised gradients; null: there are none.
  std::vector<StrategyMemory::Level>* levels = nullptr;
  at::Tensor* gradient_rest = nullptr;
};

// What belongs to a state beside its tensors. Trivially copyable.
struct ImageFacts {
  CopyLabel label;
  DataPosition data;
  int64_t evaluated = -1;   // RankPosition::evaluated
  int64_t alone_below = 0;  // RankPosition::alone_below
  uint64_t layout = 0;      // RankPosition::layout
  bool all_equal = true;    // StrategyMemory::all_equal
};

// A state that is being copied.
class StateImage {
 public:
  // The present state. The training thread may not change it before Stage.
  StateImage(const StateParts& parts, const ImageFacts& facts);

  size_t bytes() const { return bytes_; }

  // Begins to copy all to `memory`, of bytes(). For this thread, what the next forward pass may
  // change counts as copied when this returns; the rest when BeforeChange does.
  void Stage(Platform& platform, char* memory);
  // As HostCopy::BeforeChange. Requires: Stage.
  void BeforeChange();
  // Blocks until all is copied. Any thread. Requires: Stage.
  void Wait() const;

 private:
  struct Piece {
    at::Tensor source;  // Contiguous.
    size_t offset = 0;  // In the image.
  };

  void Add(const at::Tensor& tensor, bool at_once);
  void AddText(const std::string& text);
  void AddLevels(const std::vector<StrategyMemory::Level>& levels);

  size_t bytes_ = 0;
  std::string header_;
  std::vector<Piece> rest_;
  std::vector<Piece> at_once_;
  std::unique_ptr<HostCopy> rest_copy_;
  std::unique_ptr<HostCopy> at_once_copy_;
};

// Replaces the state by that of an image, and sets `facts`. DataLoss: it does not fit, and nothing
// has changed.
absl::Status RestoreImage(const char* image, size_t bytes, const StateParts& parts,
                          ImageFacts* facts);

}  // namespace paceline

#endif  // WORKER_TRAINER_COPIES_STATE_IMAGE_H_
