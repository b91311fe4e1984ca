#include "slipstream/pass_use.h"

namespace paceline {
namespace {

unsigned Buffer(int number) { return PassUse::kBuffer << number; }

}  // namespace

PassUse UseOf(ComputeOrder::Copy copy, const SlipstreamRank::Buffers& names) {
  using Copy = ComputeOrder::Copy;
  PassUse use;
  switch (copy) {
    case Copy::kPublish:
      use.reads = PassUse::kModel;
      use.writes = Buffer(names.pub);
      break;
    case Copy::kRebaseInFlight:
      use.writes = Buffer(names.sent);
      [[fallthrough]];
    case Copy::kRebase:
      use.reads = PassUse::kZ;
      use.writes |= PassUse::kModel | Buffer(names.ref) | Buffer(names.pub);
      break;
    case Copy::kReset:
      use.reads = PassUse::kZ;
      use.writes = PassUse::kModel | Buffer(names.ref);
      break;
    case Copy::kLoad:
      use.reads = PassUse::kZ;
      use.writes = PassUse::kModel;
      break;
  }
  return use;
}

PassUse UseOf(CommOrder::Fill fill, const SlipstreamRank::Buffers& names) {
  switch (fill) {
    case CommOrder::Fill::kUpdate:
      return {Buffer(names.sent) | Buffer(names.ref), 0};
    case CommOrder::Fill::kGradient:
      return {PassUse::kGradients | PassUse::kModel, 0};
    case CommOrder::Fill::kZeros:
      break;
  }
  return {};
}

PassUse UseOf(const CommOrder::Payload& payload, bool local) {
  PassUse use;
  if (payload.model > 0) use.writes |= PassUse::kZ;
  if (payload.state > 0 || (payload.model > 0 && !local)) use.writes |= PassUse::kOptimizer;
  return use;
}

}  // namespace paceline
