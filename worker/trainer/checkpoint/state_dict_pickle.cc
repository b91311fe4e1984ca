#include "worker/trainer/checkpoint/state_dict_pickle.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/core/status_macros.h"
#include "worker/trainer/checkpoint/unpickle.h"

namespace paceline {
namespace {

using Value = PickleValue;
using Kind = Value::Kind;

bool HasTensors(const Value& value) {
  if (value.kind != Kind::kDict) return false;
  for (size_t i = 1; i < value.items.size(); i += 2) {
    if (value.items[i]->kind == Kind::kTensor) return true;
  }
  return false;
}

absl::StatusOr<PickledStateDict> TakeTensors(std::string key, const Value& dict) {
  PickledStateDict found;
  found.key = std::move(key);
  for (size_t i = 0; i < dict.items.size(); i += 2) {
    const Value& name = *dict.items[i];
    const Value& value = *dict.items[i + 1];
    if (name.kind != Kind::kText) return absl::InvalidArgumentError("a name in it is no text");
    switch (value.kind) {
      case Kind::kTensor:
        found.tensors.push_back(value.tensor);
        found.tensors.back().name = name.text;
        break;
      case Kind::kNone:  // A module's empty extra state.
        break;
      default:
        return absl::InvalidArgumentError(absl::StrCat(
            name.text, " is no plain tensor",
            value.kind == Kind::kOther ? absl::StrCat(" but made by ", value.text) : std::string(),
            ": save a state dict of plain floating-point tensors"));
    }
  }
  return found;
}

// Finds the state dict: the top value itself, its entry under a usual key, or its only one.
absl::StatusOr<PickledStateDict> FindStateDict(const Value& top) {
  if (top.kind == Kind::kOther) {
    return absl::InvalidArgumentError(absl::StrCat(
        "holds an object of ", top.text,
        ", which is code and not weights: save its state dict, torch.save(m.state_dict(), path)"));
  }
  if (top.kind != Kind::kDict) {
    return absl::InvalidArgumentError("holds something else than a dictionary of tensors");
  }
  std::vector<std::pair<std::string, const Value*>> candidates;
  std::vector<std::string> keys;
  for (size_t i = 0; i < top.items.size(); i += 2) {
    if (top.items[i]->kind != Kind::kText) continue;
    keys.push_back(top.items[i]->text);
    if (HasTensors(*top.items[i + 1])) candidates.emplace_back(keys.back(), top.items[i + 1].get());
  }
  for (const char* const usual : {"state_dict", "model_state_dict", "model", "module"}) {
    for (const auto& [key, dict] : candidates) {
      if (key == usual) return TakeTensors(key, *dict);
    }
  }
  if (candidates.size() == 1) return TakeTensors(candidates[0].first, *candidates[0].second);
  if (candidates.empty() && HasTensors(top)) return TakeTensors("", top);
  const absl::string_view what = candidates.empty() ? "no dictionary of tensors" : "several";
  return absl::InvalidArgumentError(absl::StrCat("holds ", what, " under its keys (",
                                                 absl::StrJoin(keys, ", "),
                                                 "): save the model's state dict alone"));
}

}  // namespace

absl::StatusOr<PickledStateDict> ParseStateDictPickle(absl::string_view pickle) {
  PACELINE_ASSIGN_OR_RETURN(const Unpickled unpickled, Unpickle(pickle));
  return FindStateDict(unpickled.top());
}

}  // namespace paceline
