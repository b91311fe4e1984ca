// Weights of a part of a network that are whole only while the part computes (ZeRO stage 3).
#ifndef WORKER_TRAINER_MODEL_GATHERED_WEIGHTS_H_
#define WORKER_TRAINER_MODEL_GATHERED_WEIGHTS_H_

namespace paceline {

// Thread-compatible. Torch's exceptions pass through; a failed collective is a CollectiveError.
class GatheredWeights {
 public:
  virtual ~GatheredWeights() = default;

  // Makes them whole. Collective over the ranks that hold them together.
  virtual void Gather() = 0;
  // Frees them until the next Gather.
  virtual void Release() = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_GATHERED_WEIGHTS_H_
