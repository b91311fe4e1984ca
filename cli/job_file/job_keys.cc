#include "cli/job_file/job_keys.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/job_spec/job_key.h"
#include "proto/job_spec.pb.h"

namespace paceline {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

namespace {

// "chaos[12].rank" as "chaos[].rank".
std::string WithoutIndices(absl::string_view path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    if (c == ']') inside = false;
    if (!inside) out += c;
    if (c == '[') inside = true;
  }
  return out;
}

KeyType TypeOf(const KeyField& key) {
  if (key.choice != nullptr) return KeyType::kChoice;
  const FieldDescriptor& field = *key.field;
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return field.is_map() ? KeyType::kLabels : many ? KeyType::kGroups : KeyType::kGroup;
    case FieldDescriptor::CPPTYPE_ENUM:
      return KeyType::kChoice;
    case FieldDescriptor::CPPTYPE_BOOL:
      return KeyType::kBool;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return KeyType::kNumber;
    case FieldDescriptor::CPPTYPE_STRING:
      return many ? KeyType::kTexts : KeyOf(field).path() ? KeyType::kPath : KeyType::kText;
    default:
      return many ? KeyType::kIntegers : KeyType::kInteger;
  }
}

JobKey MakeKey(const std::string& path, const KeyField& field) {
  const v1::JobKey& rules = field.choice != nullptr ? KeyOf(*field.choice) : KeyOf(*field.field);
  const KeyType type = TypeOf(field);
  const std::string bounds = BoundsText(rules);
  std::vector<std::string> allowed;
  const std::string names = absl::StrJoin(AllowedNames(field), ", ");
  if (!names.empty()) allowed.push_back(names);
  if (!bounds.empty()) {
    allowed.push_back(absl::StrCat(type == KeyType::kIntegers ? "each " : "", bounds));
  }
  if (!rules.allowed().empty()) allowed.push_back(rules.allowed());
  const bool number = type == KeyType::kInteger || type == KeyType::kNumber;
  return {path,
          field,
          type,
          absl::StrJoin(allowed, "; "),
          rules.example(),
          field.choice != nullptr ? rules.default_() : "",
          number && !field.field->has_presence() && !IsWithin(rules, 0)};
}

void AddKeys(const Descriptor& group, const std::string& prefix, std::vector<JobKey>* keys) {
  for (const KeyField& key : KeyFields(group)) {
    const JobKey added = MakeKey(prefix + key.name(), key);
    keys->push_back(added);
    if (added.type == KeyType::kGroup) AddKeys(*key.field->message_type(), added.path + ".", keys);
    if (added.type == KeyType::kGroups) {
      AddKeys(*key.field->message_type(), added.path + "[].", keys);
    }
  }
}

}  // namespace

const std::vector<JobKey>& JobKeys() {
  static const std::vector<JobKey>* const keys = [] {
    auto* made = new std::vector<JobKey>;
    AddKeys(*v1::JobSpec::descriptor(), "", made);
    return made;
  }();
  return *keys;
}

const JobKey* FindJobKey(absl::string_view path) {
  const std::string plain = WithoutIndices(path);
  for (const JobKey& key : JobKeys()) {
    if (plain == key.path) return &key;
  }
  return nullptr;
}

std::vector<std::string> KeysBelow(absl::string_view group) {
  const std::string prefix = group.empty() ? "" : absl::StrCat(WithoutIndices(group), ".");
  std::vector<std::string> keys;
  for (const JobKey& key : JobKeys()) {
    absl::string_view rest = key.path;
    if (!absl::ConsumePrefix(&rest, prefix)) continue;
    if (absl::StrContains(rest, '.')) continue;
    // One that may also be a list is there twice.
    if (std::find(keys.begin(), keys.end(), rest) == keys.end()) keys.emplace_back(rest);
  }
  return keys;
}

const char* TypeName(KeyType type) {
  switch (type) {
    case KeyType::kGroup:
      return "group of keys";
    case KeyType::kGroups:
      return "list of groups";
    case KeyType::kText:
      return "text";
    case KeyType::kTexts:
      return "list of texts";
    case KeyType::kLabels:
      return "labels with values";
    case KeyType::kPath:
      return "path";
    case KeyType::kInteger:
      return "whole number";
    case KeyType::kIntegers:
      return "list of whole numbers";
    case KeyType::kNumber:
      return "number";
    case KeyType::kBool:
      return "true or false";
    case KeyType::kChoice:
      return "choice";
  }
  return "";
}

}  // namespace paceline
