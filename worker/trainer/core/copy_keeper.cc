#include "worker/trainer/core/copy_keeper.h"

#include <algorithm>
#include <tuple>

namespace paceline {
namespace {

bool IsComplete(const CopyLabel& label, const CopyOrders& orders) {
  return label == orders.CompleteOf(label.seat);
}

// Orders only ever name later copies as complete.
auto AgeOf(const CopyOrders& orders) {
  return std::tie(orders.generation, orders.complete_generation, orders.complete_step,
                  orders.settled_step);
}

}  // namespace

bool CopyOrders::operator==(const CopyOrders& other) const {
  return AgeOf(*this) == AgeOf(other) && seat == other.seat && buddy_rank == other.buddy_rank &&
         ward_rank == other.ward_rank && restore == other.restore;
}

std::optional<size_t> CopyPlaces::Take(const CopyLabel& label) {
  for (size_t i = 0; i < kCount; ++i) {
    if (places_[i].label.step > 0) continue;
    places_[i] = {label, /*whole=*/false};
    return i;
  }
  return std::nullopt;
}

void CopyPlaces::Follow(const CopyOrders& orders, bool all) {
  for (Place& place : places_) {
    if (place.label.step == 0) continue;
    if (!place.whole) {
      if (all) place = Place();
      continue;
    }
    const bool is_open =
        place.label.generation == orders.generation && place.label.step > orders.settled_step;
    if (!is_open && !IsComplete(place.label, orders)) place = Place();
  }
}

bool CopyPlaces::HasOpen(const CopyOrders& orders) const {
  return std::any_of(places_.begin(), places_.end(), [&](const Place& place) {
    return place.label.step > 0 && !(place.whole && IsComplete(place.label, orders));
  });
}

std::optional<size_t> CopyPlaces::Find(const CopyLabel& label) const {
  for (size_t i = 0; i < kCount; ++i) {
    if (places_[i].whole && places_[i].label == label) return i;
  }
  return std::nullopt;
}

std::vector<CopyLabel> CopyPlaces::Whole() const {
  std::vector<CopyLabel> whole;
  for (const Place& place : places_) {
    if (place.whole) whole.push_back(place.label);
  }
  return whole;
}

void CopyKeeper::Enter(const CopyOrders& orders) {
  if (orders.generation > orders_.generation) report_ = CopyReport();
  if (AgeOf(orders_) < AgeOf(orders)) orders_ = orders;
  report_.generation = orders_.generation;
  under_way_ = given_up_ = 0;
  own_.Follow(orders_, /*all=*/true);
  ward_.Follow(orders_, /*all=*/true);
}

void CopyKeeper::OnOrders(const CopyOrders& orders) {
  if (orders.generation != orders_.generation || AgeOf(orders) < AgeOf(orders_)) return;
  orders_ = orders;
  own_.Follow(orders_, /*all=*/false);
  if (orders_.restore || !own_.Find(orders_.CompleteOf(orders_.seat)).has_value()) return;
  for (const CopyLabel& label : own_.Whole()) {
    if (label.seat != orders_.seat) own_.Drop(*own_.Find(label));
  }
}

std::optional<size_t> CopyKeeper::BeginOwn(int64_t step) {
  const bool is_first = !own_.HasOpen(orders_);
  std::optional<size_t> place;
  if (is_first) place = own_.Take({orders_.seat, step, orders_.generation});
  if (place.has_value()) {
    under_way_ = step;
    return place;
  }
  report_.error = is_first ? "not all ranks were known to have gone back to the copies"
                           : "the one before was still under way";
  given_up_ = step;
  if (under_way_ == 0) Settle(step);
  return std::nullopt;
}

// Steps are settled in their order.
void CopyKeeper::Settle(int64_t step) {
  under_way_ = 0;
  report_.settled_step = std::max({report_.settled_step, step, given_up_});
}

void CopyKeeper::OnSent(size_t place, int64_t step) {
  own_.SetWhole(place);
  report_.copied_step = step;
  if (given_up_ < step) report_.error.clear();
  Settle(step);
}

void CopyKeeper::OnFailed(size_t place, int64_t step, const std::string& why) {
  own_.Drop(place);
  report_.error = why;
  report_.failed_step = step;
  Settle(step);
}

std::optional<size_t> CopyKeeper::BeginWard(const CopyLabel& label, const CopyOrders& wards) {
  // What the ward knows of complete copies may be newer.
  ward_.Follow(AgeOf(orders_) < AgeOf(wards) ? wards : orders_, /*all=*/false);
  return ward_.Take(label);
}

void CopyKeeper::OnGoingBack(int64_t steps_lost) {
  report_.steps_lost = lost_ = std::max(lost_, steps_lost);
}

std::vector<int> SourcesOfCopies(const std::vector<std::vector<CopyLabel>>& held,
                                 const std::vector<CopyLabel>& wanted) {
  const auto has = [&](size_t rank, const CopyLabel& label) {
    return std::find(held[rank].begin(), held[rank].end(), label) != held[rank].end();
  };
  std::vector<int> sources;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    int source = has(rank, wanted[rank]) ? static_cast<int>(rank) : -1;
    for (size_t other = 0; source < 0 && other < held.size(); ++other) {
      if (has(other, wanted[rank])) source = static_cast<int>(other);
    }
    sources.push_back(source);
  }
  return sources;
}

}  // namespace paceline
