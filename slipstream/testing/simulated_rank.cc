#include "slipstream/testing/simulated_rank.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "slipstream/copies.h"

namespace paceline {
namespace {

std::string Text(const SimulatedVector& vector) {
  return absl::StrCat("[", absl::StrJoin(vector, " "), "]");
}

int Bit(int buffer) { return SimulatedRank::kBuffer0 << buffer; }

}  // namespace

SimulatedVector operator+(SimulatedVector a, const SimulatedVector& b) {
  std::transform(a.begin(), a.end(), b.begin(), a.begin(), std::plus<>());
  return a;
}

SimulatedVector operator-(SimulatedVector a, const SimulatedVector& b) {
  std::transform(a.begin(), a.end(), b.begin(), a.begin(), std::minus<>());
  return a;
}

SimulatedVector operator/(SimulatedVector a, double b) {
  for (double& value : a) value /= b;
  return a;
}

SimulatedRank::SimulatedRank(const SlipstreamRank::Options& options, const RoundState& state,
                             SimulatedVector z_in, SimulatedVector slots_in, absl::Time now)
    : machine(options, state, now),
      rank(options.rank),
      x(kSimulatedSize, -1),
      z(std::move(z_in)),
      wire(kSimulatedSize, -1),
      rest(kSimulatedSize, -1),
      gradient(kSimulatedSize, -1),
      slots(std::move(slots_in)),
      updates(kSimulatedSize, 0),
      published(updates),
      in_flight(updates),
      sent(updates),
      lost(updates) {
  buffers.fill(SimulatedVector(kSimulatedSize, -1));
}

SimulatedRank::Pass SimulatedRank::PassOf(const ComputeOrder& order) const {
  using Copy = ComputeOrder::Copy;
  const SlipstreamRank::Buffers& names = machine.buffers();
  if (order.kind == ComputeOrder::Kind::kUpdate) return {kX | kSlots, kX | kSlots};
  if (order.kind == ComputeOrder::Kind::kGradient) return {kX, SimulatedRank::kGradient};
  switch (order.copy) {
    case Copy::kPublish:
      return {kX, Bit(names.pub)};
    case Copy::kRebase:
      return {kZ | kX | Bit(names.ref), kX | Bit(names.ref) | Bit(names.pub)};
    case Copy::kRebaseInFlight:
      return {kZ | kX | Bit(names.ref) | Bit(names.sent),
              kX | Bit(names.ref) | Bit(names.sent) | Bit(names.pub)};
    case Copy::kReset:
      return {kZ, kX | Bit(names.ref) | (order.resets_optimizer ? kSlots : 0)};
    case Copy::kLoad:
      return {kZ, kX};
  }
  return {};
}

SimulatedRank::Pass SimulatedRank::PassOf(const CommOrder& order) const {
  const SlipstreamRank::Buffers& names = machine.buffers();
  const int slots_too = order.payload.state > 0 ? kSlots : 0;
  switch (order.kind) {
    case CommOrder::Kind::kHash:
      return {kZ, 0};
    case CommOrder::Kind::kFill:
      if (order.fill == CommOrder::Fill::kZeros) return {0, kWire};
      if (order.fill == CommOrder::Fill::kGradient) return {SimulatedRank::kGradient, kWire};
      return {Bit(names.sent) | Bit(names.ref), kWire};
    case CommOrder::Kind::kReduce:
      return {kWire | (order.payload.has_state ? slots_too : 0), kWire};
    case CommOrder::Kind::kApply: {
      const bool optimizes = !IsLocal(machine.state().plan.mode) && order.payload.model > 0;
      const int of = order.payload.has_update ? names.sent : names.ref;
      const int takes = order.payload.lossy ? Bit(of) : 0;
      return {kWire | kZ | takes, kZ | takes | slots_too | (optimizes ? kSlots : 0)};
    }
    default:
      return {};
  }
}

void SimulatedRank::Copy(ComputeOrder::Copy copy) {
  const SlipstreamRank::Buffers& names = machine.buffers();
  double* const pub = buffers[static_cast<size_t>(names.pub)].data();
  double* const ref = buffers[static_cast<size_t>(names.ref)].data();
  double* const in_round = buffers[static_cast<size_t>(names.sent)].data();
  switch (copy) {
    case ComputeOrder::Copy::kPublish:
      std::copy(x.begin(), x.end(), pub);
      published = updates;
      break;
    case ComputeOrder::Copy::kRebase:
      Rebase(kSimulatedSize, z.data(), x.data(), ref, pub);
      published = updates;
      break;
    case ComputeOrder::Copy::kRebaseInFlight:
      RebaseInFlight(kSimulatedSize, z.data(), x.data(), ref, in_round, pub);
      published = updates;
      break;
    case ComputeOrder::Copy::kReset:
      x = z;
      std::copy(z.begin(), z.end(), ref);
      lost = updates - sent;
      poisoned = false;
      counts = true;
      break;
    case ComputeOrder::Copy::kLoad:
      x = z;
      counts = false;
      break;
  }
}

std::optional<std::string> SimulatedRank::Fill(CommOrder::Fill fill) {
  const SlipstreamRank::Buffers& names = machine.buffers();
  squared = 0;
  switch (fill) {
    case CommOrder::Fill::kZeros:
      wire.assign(kSimulatedSize, 0);
      return std::nullopt;
    case CommOrder::Fill::kGradient:
      wire = gradient;
      if (gradient_number == used_gradient) return "a gradient is used twice";
      return std::nullopt;
    case CommOrder::Fill::kUpdate:
      break;
  }
  squared = FillUpdate(kSimulatedSize, buffers[static_cast<size_t>(names.sent)].data(),
                       buffers[static_cast<size_t>(names.ref)].data(), wire.data());
  if (!exact || wire == in_flight) return std::nullopt;
  if (!std::isfinite(squared)) {
    in_flight.assign(kSimulatedSize, 0);
    return std::nullopt;
  }
  return absl::StrCat("sends ", Text(wire), ", has published ", Text(in_flight));
}

SimulatedVector SimulatedRank::PayloadInput(const CommOrder::Payload& payload) const {
  const SimulatedVector zeros(kSimulatedSize, 0);
  SimulatedVector input = payload.model > 0 ? wire : zeros;
  const SimulatedVector& state = payload.has_state ? slots : zeros;
  if (payload.state > 0) input.insert(input.end(), state.begin(), state.end());
  return input;
}

void SimulatedRank::Apply(const CommOrder::Payload& payload) {
  if (payload.model > 0) {
    const SimulatedVector model(sum.begin(), sum.begin() + kSimulatedSize);
    if (payload.lossy) {
      const SlipstreamRank::Buffers& names = machine.buffers();
      const int of = payload.has_update ? names.sent : names.ref;
      TakeOut(kSimulatedSize, rest.data(), buffers[static_cast<size_t>(of)].data());
      sent = sent - rest;
    }
    if (IsLocal(machine.state().plan.mode)) {
      sent_in_round = payload.has_update;
      ApplyUpdates(kSimulatedSize, model.data(), payload.model, z.data());
    } else {
      slots = slots + model / payload.model;
      z = z - model / payload.model;
    }
  }
  if (payload.state > 0) {
    slots = SimulatedVector(sum.begin() + kSimulatedSize, sum.end()) / payload.state;
  }
}

void SimulatedRank::Round(double units, double* values, SimulatedVector& rest) {
  for (size_t i = 0; i < kSimulatedSize; ++i) {
    const double left_out = std::fmod(values[i], units * kSimulatedUnit);
    values[i] -= left_out;
    rest[i] += left_out;
  }
}

void SimulatedRank::BeginFill() { in_flight = published - sent - lost; }

void SimulatedRank::CountUsed() {
  if (machine.sent_updates() > counted_updates || sent_in_round) sent = sent + in_flight;
  sent_in_round = false;
  in_flight.assign(kSimulatedSize, 0);
  counted_updates = machine.sent_updates();
  if (machine.used_gradients() > counted_gradients) used_gradient = gradient_number;
  counted_gradients = machine.used_gradients();
}

std::optional<std::string> SimulatedRank::CheckAccount() const {
  if (!exact || !counts || poisoned) return std::nullopt;
  const SimulatedVector& ref = buffers[static_cast<size_t>(machine.buffers().ref)];
  const SimulatedVector own = updates - sent - lost;
  if (x - ref == own) return std::nullopt;
  return absl::StrCat("x - ref is ", Text(x - ref), ", own work ", Text(own));
}

}  // namespace paceline
