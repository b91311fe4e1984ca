// A model that scores classes: those of an image, or the next token at each place of a
// sequence. Its loss is the cross-entropy of the scores.
#ifndef WORKER_TRAINER_MODEL_CLASSIFIER_H_
#define WORKER_TRAINER_MODEL_CLASSIFIER_H_

#include <ATen/core/Tensor.h>

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
};

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_CLASSIFIER_H_
