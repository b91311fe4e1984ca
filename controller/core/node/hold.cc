#include "controller/core/node/hold.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

bool IsAutomatic(const Hold& hold) { return hold.owner == kAutomationOwner; }

absl::Time SteadyOf(absl::Time wall, Moment now) {
  if (wall == absl::InfiniteFuture()) return absl::InfiniteFuture();
  return now.steady + std::max(wall - now.wall, absl::ZeroDuration());
}

// Whether two holds end alike. Drains do if they have the same time from request to deadline.
bool SameTerm(const Hold& before, const Hold& after, absl::Time wall_now) {
  if (before.until == after.until) return true;
  if (!before.drain.has_value() || before.until == absl::InfiniteFuture() ||
      after.until == absl::InfiniteFuture()) {
    return false;
  }
  const absl::Duration differ = (after.until - wall_now) - (before.until - before.since);
  return absl::AbsDuration(differ) < absl::Seconds(1);
}

template <typename Holds>
auto FindHold(Holds& holds, const Hold& like) {
  return std::find_if(holds.begin(), holds.end(), [&](const Hold& hold) {
    return hold.owner == like.owner && hold.drain.has_value() == like.drain.has_value();
  });
}

}  // namespace

const char* DrainModeName(DrainMode mode) {
  switch (mode) {
    case DrainMode::kSwap:
      return "swap";
    case DrainMode::kCheckpoint:
      return "checkpoint";
    case DrainMode::kFinish:
      return "finish";
    case DrainMode::kNow:
      return "now";
  }
  return "";
}

std::string DescribeHold(const Hold& hold) {
  const std::string what = hold.drain.has_value()
                               ? absl::StrCat("drained (", DrainModeName(*hold.drain), ")")
                               : "cordoned";
  return absl::StrCat(what, " by ", hold.owner, ": ", hold.reason);
}

bool SetHold(std::vector<Hold>& holds, Hold hold, Moment now) {
  hold.since = now.wall;
  hold.due = SteadyOf(hold.until, now);
  const auto found = FindHold(holds, hold);
  if (found == holds.end()) {
    holds.push_back(std::move(hold));
    return true;
  }
  if (found->drain == hold.drain && found->reason == hold.reason &&
      SameTerm(*found, hold, now.wall)) {
    return false;
  }
  *found = std::move(hold);
  return true;
}

bool RemoveCordon(std::vector<Hold>& holds, absl::string_view owner) {
  Hold cordon;
  cordon.owner = std::string(owner);
  const auto found = FindHold(holds, cordon);
  if (found == holds.end()) return false;
  holds.erase(found);
  return true;
}

bool RemoveHolds(std::vector<Hold>& holds, absl::string_view owner) {
  const size_t before = holds.size();
  const bool all = owner != kAutomationOwner;
  holds.erase(std::remove_if(holds.begin(), holds.end(),
                             [all](const Hold& hold) { return all || IsAutomatic(hold); }),
              holds.end());
  return holds.size() != before;
}

std::optional<Refusal> RefuseAutomaticHold(const std::vector<Hold>& holds) {
  const auto person =
      std::find_if(holds.begin(), holds.end(), [](const Hold& hold) { return !IsAutomatic(hold); });
  if (person == holds.end()) return std::nullopt;
  return Refusal{Refusal::Kind::kState, "HELD_BY_PERSON",
                 absl::StrCat("the node is ", DescribeHold(*person),
                              "; the automation leaves it to that person")};
}

const Hold* EffectiveDrain(const std::vector<Hold>& holds) {
  const auto weight = [](const Hold& hold) {
    return std::make_tuple(hold.drain == DrainMode::kNow, !IsAutomatic(hold), hold.since);
  };
  const Hold* effective = nullptr;
  for (const Hold& hold : holds) {
    if (!hold.drain.has_value()) continue;
    if (effective == nullptr || weight(*effective) < weight(hold)) effective = &hold;
  }
  return effective;
}

std::vector<std::string> ExpireHolds(std::vector<Hold>& holds, absl::Time steady_now) {
  std::vector<std::string> happened;
  for (auto hold = holds.begin(); hold != holds.end();) {
    if (steady_now < hold->due) {
      ++hold;
    } else if (hold->drain.has_value()) {
      happened.push_back(absl::StrCat("the deadline of the drain by ", hold->owner,
                                      " has passed: what is left there is ended"));
      hold->drain = DrainMode::kNow;
      hold->until = hold->due = absl::InfiniteFuture();
      ++hold;
    } else {
      happened.push_back(absl::StrCat("the cordon by ", hold->owner, " has ended"));
      hold = holds.erase(hold);
    }
  }
  return happened;
}

absl::Time NextExpiry(const std::vector<Hold>& holds) {
  absl::Time next = absl::InfiniteFuture();
  for (const Hold& hold : holds) next = std::min(next, hold.due);
  return next;
}

void RestoreExpiry(std::vector<Hold>& holds, Moment now) {
  for (Hold& hold : holds) hold.due = SteadyOf(hold.until, now);
}

}  // namespace paceline
