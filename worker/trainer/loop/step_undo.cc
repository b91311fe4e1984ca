#include "worker/trainer/loop/step_undo.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>

namespace paceline {

StepUndo::StepUndo(const ModelTensors& model, Attachments* attachments)
    : model_(model), attachments_(attachments) {
  for (const NamedTensor& buffer : model.buffers()) {
    if (buffer.frozen) continue;
    buffers_.push_back(buffer.tensor.detach());
    kept_.push_back(at::empty_like(buffers_.back()));
  }
}

void StepUndo::Keep() {
  const at::NoGradGuard no_grad;
  if (!kept_.empty()) at::_foreach_copy_(kept_, buffers_);
  random_.emplace(model_.device());
  if (attachments_ != nullptr) attachments_->Keep();
}

void StepUndo::Undo() const {
  const at::NoGradGuard no_grad;
  if (!kept_.empty()) at::_foreach_copy_(buffers_, kept_);
  random_->Restore();
  if (attachments_ != nullptr) attachments_->Undo();
  for (const NamedTensor& parameter : model_.parameters()) {
    parameter.tensor.mutable_grad() = at::Tensor();
  }
}

}  // namespace paceline
