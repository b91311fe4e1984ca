#include "worker/trainer/loop/autocast.h"

#include <ATen/autocast_mode.h>

namespace paceline {

Autocast::Autocast(bool enabled, c10::DeviceType device) : enabled_(enabled), device_(device) {
  if (!enabled_) return;
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, at::kBFloat16);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!enabled_) return;
  // Cached casts of weights must not outlive the step that changes the weights.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, false);
}

}  // namespace paceline
