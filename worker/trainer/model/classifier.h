// A model that scores classes: those of an image, or the next token at each place of a
// sequence. Its loss is the cross-entropy of the scores.
#ifndef WORKER_TRAINER_MODEL_CLASSIFIER_H_
#define WORKER_TRAINER_MODEL_CLASSIFIER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/trainer/data/dataset.h"
#include "worker/trainer/model/model.h"

namespace paceline {

class Classifier : public Model {
 public:
  // Returns scores [.., classes] for inputs [.., ...], one row per target.
  virtual at::Tensor Forward(const at::Tensor& inputs) = 0;

  at::Tensor Loss(const Batch& batch) override;
  Score Evaluate(const Batch& batch) override;

 protected:
  using Model::Model;

  // Of scores [n, classes] and their targets [n]: the sum of the losses and the number of targets
  // with the highest score, as doubles [2] on the device.
  static at::Tensor SumsOf(at::Tensor scores, const at::Tensor& targets);
  // Of such sums over all predictions.
  static Score ScoreOf(const at::Tensor& sums, int64_t predictions);
};

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_CLASSIFIER_H_
