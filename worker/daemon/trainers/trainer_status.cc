#include "worker/daemon/trainers/trainer_status.h"

#include <algorithm>
#include <string>
#include <utility>

namespace paceline {
namespace {

// Keeps only what is worth a report of its own. While a trainer trains, its step is a figure.
v1::TrainerStatus WithoutFigures(v1::TrainerStatus status) {
  status.clear_figures();
  status.clear_checkpoints();
  if (!status.membership().waiting() && status.has_membership()) {
    status.mutable_membership()->clear_step();
  }
  return status;
}

// Keeps only what other ranks may wait for. Requires: `status` has no figures.
std::string WaitedFor(v1::TrainerStatus status) {
  status.clear_evaluation();
  status.clear_plan();
  status.clear_profile();
  status.clear_saves();
  return status.SerializeAsString();
}

// Prepends the saves that only `earlier` has.
void AddSaves(const v1::TrainerStatus& earlier, v1::TrainerStatus* last) {
  google::protobuf::RepeatedPtrField<v1::SaveStatus> saves;
  for (const v1::SaveStatus& save : earlier.saves()) {
    const bool known = std::any_of(last->saves().begin(), last->saves().end(), [&](const auto& s) {
      return s.step() == save.step() && (save.step() > 0 || s.order() == save.order());
    });
    if (!known) *saves.Add() = save;
  }
  saves.MergeFrom(last->saves());
  last->mutable_saves()->Swap(&saves);
}

}  // namespace

Tell HowSoon(const v1::TrainerStatus& before, const v1::TrainerStatus& after) {
  const v1::TrainerStatus old_words = WithoutFigures(before);
  const v1::TrainerStatus new_words = WithoutFigures(after);
  if (old_words.SerializeAsString() == new_words.SerializeAsString()) return Tell::kNothing;
  return WaitedFor(old_words) == WaitedFor(new_words) ? Tell::kSoon : Tell::kNow;
}

v1::TrainerStatus MergeLastWords(const v1::TrainerStatus& seen, v1::TrainerStatus last) {
  if (!last.has_evaluation() && seen.has_evaluation()) {
    *last.mutable_evaluation() = seen.evaluation();
  }
  if (last.store_port() == 0) last.set_store_port(seen.store_port());
  AddSaves(seen, &last);
  if (!last.has_checkpoints() && seen.has_checkpoints()) {
    *last.mutable_checkpoints() = seen.checkpoints();
  }
  if (seen.asked_to_end()) last.set_asked_to_end(true);
  if (!last.has_membership() && seen.has_membership()) {
    *last.mutable_membership() = seen.membership();
  }
  return last;
}

}  // namespace paceline
