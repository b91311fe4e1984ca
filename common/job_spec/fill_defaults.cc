#include "common/job_spec/job_spec.h"

namespace paceline {
namespace {

void FillOptimizer(v1::Optimizer* optimizer) {
  if (!optimizer->has_adamw()) return;
  v1::AdamW* adamw = optimizer->mutable_adamw();
  if (!adamw->has_beta1()) adamw->set_beta1(0.9);
  if (!adamw->has_beta2()) adamw->set_beta2(0.999);
  if (!adamw->has_epsilon()) adamw->set_epsilon(1e-8);
}

void FillSchedule(v1::Schedule* schedule) {
  if (schedule->kind_case() == v1::Schedule::KIND_NOT_SET) schedule->mutable_constant();
  if (schedule->has_step() && !schedule->step().has_gamma()) {
    schedule->mutable_step()->set_gamma(0.1);
  }
}

}  // namespace

void FillDefaults(v1::JobSpec* spec) {
  if (spec->ranks() == 0) spec->set_ranks(1);
  if (spec->device() == v1::DEVICE_UNSPECIFIED) spec->set_device(v1::CPU);
  if (spec->model().has_mlp() && spec->model().mlp().hidden().empty()) {
    spec->mutable_model()->mutable_mlp()->add_hidden(128);
  }
  if (spec->data().order() == v1::DATA_ORDER_UNSPECIFIED) {
    spec->mutable_data()->set_order(v1::SHUFFLE);
  }
  if (spec->batch_per_rank() == 0) spec->set_batch_per_rank(32);
  if (spec->has_optimizer()) FillOptimizer(spec->mutable_optimizer());
  FillSchedule(spec->mutable_schedule());
  if (spec->precision() == v1::PRECISION_UNSPECIFIED) spec->set_precision(v1::FP32);
  spec->mutable_evaluation();
  spec->mutable_checkpoint();
  if (spec->log_every() == 0) spec->set_log_every(10);
  if (spec->collective_timeout_s() == 0) spec->set_collective_timeout_s(300);
}

}  // namespace paceline
