#include "worker/trainer/slipstream/pass_order.h"

namespace paceline {
namespace {

using Event = DeviceStreams::Event;
using Side = PassOrder::Side;

constexpr Side kSides[] = {Side::kCompute, Side::kComm};
constexpr Event kOfParts = 2 * PassUse::kParts;  // Per side: reads, then writes.
constexpr Event kFirstStep = 2 * kOfParts;       // After the two latest steps.
constexpr Event kFirstOfStream = kFirstStep + 2;
static_assert(kFirstOfStream + 2 <= DeviceStreams::kEvents);

Event ReadOf(Side side, int part) { return static_cast<int>(side) * kOfParts + part; }
Event WriteOf(Side side, int part) { return ReadOf(side, part) + PassUse::kParts; }
Side Other(Side side) { return kSides[side == Side::kCompute ? 1 : 0]; }
bool Holds(unsigned parts, int part) { return ((parts >> part) & 1U) != 0; }

}  // namespace

PassOrder::PassOrder(DeviceStreams* streams) : streams_(streams) {
  if (on_device()) Record(Side::kCompute, {0, PassUse::kAll});
}

// Its own memory was also made on the other stream, which may have used it for something else.
std::unique_ptr<DeviceStreams::Aside> PassOrder::GoAside() {
  if (!on_device()) return nullptr;
  auto aside = streams_->GoAside();
  StartAfterConflicts(Side::kComm, {0, PassUse::kAll});
  return aside;
}

void PassOrder::StartAfterConflicts(Side side, const PassUse& use) {
  const Side other = Other(side);
  for (int part = 0; part < PassUse::kParts; ++part) {
    if (Holds(use.reads | use.writes, part)) streams_->StartAfter(WriteOf(other, part));
    if (Holds(use.writes, part)) streams_->StartAfter(ReadOf(other, part));
  }
}

void PassOrder::Record(Side side, const PassUse& use) {
  for (int part = 0; part < PassUse::kParts; ++part) {
    if (Holds(use.reads, part)) streams_->Record(ReadOf(side, part));
    if (Holds(use.writes, part)) streams_->Record(WriteOf(side, part));
  }
}

void PassOrder::TakeBack() {
  if (on_device()) StartAfterConflicts(Side::kCompute, kStepUse);
}

void PassOrder::HandOver() {
  if (!on_device()) return;
  Record(Side::kCompute, kStepUse);
  streams_->Record(kFirstStep + static_cast<Event>(steps_++ % 2));
}

void PassOrder::WaitForLatestStep() {
  // The step before that one is done.
  if (on_device()) streams_->Wait(kFirstStep + static_cast<Event>(steps_ % 2));
}

void PassOrder::WaitForStream(Side side) {
  if (!on_device()) return;
  const Event event = kFirstOfStream + static_cast<Event>(side);
  streams_->Record(event);
  streams_->Wait(event);
}

}  // namespace paceline
