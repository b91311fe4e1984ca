#include "controller/core/tenure.h"

namespace paceline {
namespace {

constexpr double kCounted = 0.9;  // Of a lease.

}  // namespace

void Tenure::Renewed(absl::Time sent, absl::Duration length) {
  if (sent <= sent_) return;
  sent_ = sent;
  length_ = length;
  end_ = sent + length * kCounted;
}

}  // namespace paceline
