#include "worker/trainer/generation/succession.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"

namespace paceline {
namespace {

using Action = MembershipState::Action;

std::string ConnectedWord(int64_t generation) { return absl::StrCat("connected/", generation); }

}  // namespace

Succession::Succession(Conductor& conductor, Groups groups, int64_t steps_done, Connect connect)
    : conductor_(conductor),
      groups_(std::move(groups)),
      connect_(std::move(connect)),
      agreement_(
          {[this](int64_t attempt, int64_t promise) {
             return groups_.GreatestOfAll(absl::StrCat("leave/", leaving_for_.load(), "/", attempt),
                                          promise, SaveAgreement::kPatience);
           },
           [this](int64_t /*attempt*/, const std::string& why) {
             PACELINE_LOG(WARNING)
                 << "generation " << leaving_for_.load() << " cannot be taken up yet: " << why;
             must_propose_ = true;
           }},
          steps_done) {}

int64_t Succession::ReadyFor() {
  const MembershipState::Step next = conductor_.Planned();
  if (next.action == Action::kConnect) ConnectTo(next.generation);
  if (next.action != Action::kAgree) return 0;
  if (ready_for_ == next.generation) return ready_for_;
  const bool stays = next_.has_value() && next_->generation == next.generation;
  if (!stays && !groups_.WasSaid(ConnectedWord(next.generation))) return 0;
  averages_first_ = conductor_.newest().averages_first;
  return ready_for_ = next.generation;
}

bool Succession::AfterStep(int64_t steps_done) {
  const int64_t generation = ReadyFor();
  if (generation != 0 && (leaving_for_ != generation || must_propose_)) {
    leaving_for_ = generation;
    must_propose_ = false;
    agreement_.Propose({++attempts_, false});
  }
  absl::Duration waited;
  return agreement_.AfterStep(steps_done, &waited).has_value();
}

void Succession::ConnectTo(int64_t generation) {
  if (generation != connecting_to_) {
    connecting_to_ = generation;
    connecting_ = connect_(conductor_.newest());
  }
  if (!connecting_->IsDone()) return;
  try {
    next_.emplace(Next{generation, *connecting_->Wait([] { return false; })});
  } catch (const std::exception& error) {
    PACELINE_LOG(ERROR) << "generation " << generation << " cannot be connected: " << error.what();
    return conductor_.SetConnected(generation, false);
  }
  groups_.Say(ConnectedWord(generation));
  conductor_.SetConnected(generation, true);
}

std::optional<Succession::Next> Succession::TakeNext() {
  return std::exchange(next_, std::nullopt);
}

}  // namespace paceline
