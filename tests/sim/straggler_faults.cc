#include "tests/sim/straggler_faults.h"

#include <algorithm>

namespace paceline::sim {

void StragglerFaults::Start() {
  Repeat(world_.settings.slowdown, &StragglerFaults::SlowNode);
  Repeat(world_.settings.half_slow, &StragglerFaults::SlowHalf);
  Repeat(world_.settings.nonsense, &StragglerFaults::TellNonsense);
}

void StragglerFaults::Repeat(Micros mean, void (StragglerFaults::*one)()) {
  if (mean == kNever) return;
  const Micros at = world_.time.now() + random_.Exponential(mean);
  if (at >= world_.settings.quiet) return;
  world_.time.At(at, [this, mean, one] {
    (this->*one)();
    Repeat(mean, one);
  });
}

std::vector<SimNode*> StragglerFaults::Healthy() const {
  std::vector<SimNode*> healthy;
  for (const auto& node : world_.nodes) {
    if (node->slowness == 1) healthy.push_back(node.get());
  }
  return healthy;
}

void StragglerFaults::Slow(SimNode& node, double factor, int64_t together, Micros until) {
  world_.trace.Add(node.name().value(), ": slow, by ", factor);
  node.slowness = factor;
  node.slowed = world_.time.now();
  node.was_slow = true;
  node.slow_together = together;
  world_.time.At(std::min(until, world_.settings.quiet), [this, &node] {
    world_.trace.Add(node.name().value(), ": as fast as the others");
    node.slowness = 1;
    node.slow_together = 0;
  });
}

void StragglerFaults::Alternate(SimNode& node, double factor, Micros period, Micros until) {
  if (node.slowness > 1 || world_.time.now() >= until) return;
  Slow(node, factor, 0, world_.time.now() + period);
  world_.time.After(2 * period, [this, &node, factor, period, until] {
    Alternate(node, factor, period, std::min(until, world_.settings.quiet));
  });
}

void StragglerFaults::SlowNode() {
  const std::vector<SimNode*> healthy = Healthy();
  if (healthy.empty()) return;
  SimNode& node =
      *healthy[static_cast<size_t>(random_.Between(0, static_cast<int64_t>(healthy.size()) - 1))];
  const double factor = 1.15 + 1.5 * random_.Unit();
  const Micros now = world_.time.now();
  const double kind = random_.Unit();
  if (kind < 0.4) return Slow(node, factor, 0, world_.settings.quiet);
  if (kind < 0.75) return Slow(node, factor, 0, now + random_.Between(2, 15) * kSecond);
  Alternate(node, 1.03 + 0.2 * random_.Unit(), random_.Between(100, 3000) * kMilli,
            now + random_.Between(5, 30) * kSecond);
}

void StragglerFaults::SlowHalf() {
  std::vector<SimNode*> healthy = Healthy();
  const size_t half = (world_.nodes.size() + 1) / 2;
  if (healthy.size() < half) return;
  const double factor = 1.15 + random_.Unit();
  const Micros until = world_.time.now() + random_.Between(3, 30) * kSecond;
  ++together_;
  for (size_t i = 0; i < half; ++i) {
    const auto chosen = static_cast<size_t>(
        random_.Between(static_cast<int64_t>(i), static_cast<int64_t>(healthy.size()) - 1));
    std::swap(healthy[i], healthy[chosen]);
    Slow(*healthy[i], factor, together_, until);
  }
  world_.coverage.Count("half of the nodes slow at once");
}

void StragglerFaults::TellNonsense() {
  SimNode& node = *world_.nodes[static_cast<size_t>(
      random_.Between(0, static_cast<int64_t>(world_.nodes.size()) - 1))];
  world_.trace.Add(node.name().value(), ": tells nonsense");
  node.tells_nonsense = true;
  const Micros until = world_.time.now() + random_.Between(1, 10) * kSecond;
  world_.time.At(std::min(until, world_.settings.quiet), [&node] { node.tells_nonsense = false; });
}

}  // namespace paceline::sim
