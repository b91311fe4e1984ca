#include "worker/trainer/comm/level_states.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/trainer/comm/row_codec.h"
#include "worker/trainer/config.h"

namespace paceline {

void LevelStates::Begin(const BuiltPlan& plan) {
  const OuterStep* const last = last_outer();
  const at::Tensor momentum = last != nullptr ? last->momentum() : at::Tensor();
  levels_.clear();
  at::Tensor now;
  for (size_t i = 0; i < plan.levels.size(); ++i) {
    Group& group = *plan.levels[i];
    const PlanLevel& planned = plan.plan.levels[i];
    const bool is_streamed = planned.outer.has_value() && planned.outer->is_streamed();
    const std::optional<RowFormat> format =
        group.size() > 1 && !is_streamed ? RowFormatOf(planned.format) : std::nullopt;
    Level& level = levels_.emplace_back();
    level.group = &group;
    if (!format.has_value() && !planned.outer.has_value()) continue;
    if (!now.defined()) now = averager_.Flat();
    if (format.has_value()) {
      level.quantized = std::make_unique<QuantizedMean>(groups_.row_codec(), *format, group, now);
    }
    if (planned.outer.has_value()) level.outer = std::make_unique<OuterStep>(*planned.outer, now);
  }
  if (momentum.defined() && last_outer() != nullptr) last_outer()->SetMomentum(momentum);
}

bool LevelStates::any() const {
  return std::any_of(levels_.begin(), levels_.end(), [](const Level& level) {
    return level.quantized != nullptr || level.outer != nullptr;
  });
}

OuterStep* LevelStates::last_outer() const {
  return levels_.empty() ? nullptr : levels_.back().outer.get();
}

void LevelStates::SetReferences(const RankRange& equal, std::optional<int> but) {
  at::Tensor now;
  for (size_t i = 0; i < levels_.size(); ++i) {
    const Level& level = levels_[i];
    const std::vector<int>& ranks = level.group->ranks();
    if (but == static_cast<int>(i) || (level.quantized == nullptr && level.outer == nullptr) ||
        !equal.Holds(ranks.front()) || !equal.Holds(ranks.back())) {
      continue;
    }
    if (!now.defined()) now = averager_.Flat();
    if (level.quantized != nullptr) level.quantized->SetReference(now);
    if (level.outer != nullptr) level.outer->SetPoint(now);
  }
}

void LevelStates::Resume(const std::vector<LevelMemory>& memory) {
  for (size_t i = 0; i < std::min(levels_.size(), memory.size()); ++i) {
    const Level& level = levels_[i];
    const LevelMemory& from = memory[i];
    if (level.outer != nullptr && from.momentum.defined()) level.outer->SetMomentum(from.momentum);
    if (!from.reference.defined()) continue;
    if (level.outer != nullptr) level.outer->Resume(from.reference, from.reference_number);
    if (level.quantized == nullptr) continue;
    level.quantized->Resume(from.reference, from.reference_number);
    level.quantized->SetResiduals(from.residuals_to_send());
  }
}

void LevelStates::ResumeMomentum(const std::vector<LevelMemory>& memory) {
  if (memory.empty() || !memory.back().momentum.defined() || last_outer() == nullptr) return;
  last_outer()->SetMomentum(memory.back().momentum);
}

std::vector<LevelMemory> LevelStates::Memory() const {
  std::vector<LevelMemory> memory;
  for (const Level& level : levels_) {
    LevelMemory& kept = memory.emplace_back();
    if (level.outer != nullptr) {
      kept.reference = level.outer->point();
      kept.reference_number = level.outer->point_number();
      kept.momentum = level.outer->momentum();
    }
    if (level.quantized == nullptr) continue;
    kept.reference = level.quantized->reference();
    kept.reference_number = level.quantized->reference_number();
    kept.residuals = level.quantized->residuals();
    kept.before = level.quantized->residuals_before();
  }
  return memory;
}

std::vector<NamedTensor> LevelStates::Own() const {
  std::vector<NamedTensor> own;
  for (size_t i = 0; i < levels_.size(); ++i) {
    const Level& level = levels_[i];
    const std::string name = absl::StrCat("averager/level", i);
    if (level.quantized != nullptr) {
      own.push_back({name + "/error", level.quantized->residuals().own});
      own.push_back({name + "/mean_error", level.quantized->residuals().mean});
    }
    if (level.outer != nullptr && i + 1 < levels_.size()) {
      own.push_back({name + "/momentum", level.outer->momentum()});
    }
  }
  return own;
}

std::vector<NamedTensor> LevelStates::Momentum(const std::vector<NamedTensor>& parameters) const {
  std::vector<NamedTensor> cut;
  const OuterStep* const outer = last_outer();
  if (outer == nullptr) return cut;
  int64_t first = 0;
  for (const NamedTensor& parameter : parameters) {
    const int64_t values = parameter.tensor.numel();
    cut.push_back({absl::StrCat("averager/momentum/", parameter.name),
                   outer->momentum().narrow(0, first, values).view(parameter.tensor.sizes()),
                   /*frozen=*/false, parameter.slice});
    first += values;
  }
  return cut;
}

}  // namespace paceline
