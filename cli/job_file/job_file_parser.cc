#include "cli/job_file/job_file_parser.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/text/nearest.h"
#include "cli/text/sanitize.h"
#include "cli/text/shell_path.h"
#include "common/core/object_url.h"

namespace paceline {
namespace {

using absl::StrCat;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string Join(const std::string& group, const std::string& key) {
  return group.empty() ? key : StrCat(group, ".", key);
}

FilePosition PositionOfNode(const YAML::Node& node) {
  const YAML::Mark mark = node.Mark();
  return mark.is_null() ? FilePosition{} : FilePosition{mark.line + 1, mark.column + 1};
}

// A value as it is quoted in a message.
std::string Quoted(const YAML::Node& value) {
  return StrCat("\"", Shortened(SanitizeLine(value.Scalar()), 60), "\"");
}

// YAML gives quoted scalars the tag "!".
bool IsQuoted(const YAML::Node& value) { return value.Tag() == "!"; }

bool IsDigits(absl::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// What a whole number of `key` may be, with the type's own limit when the key has none.
std::string AllowedText(const JobKey& key, bool narrow) {
  if (absl::StrContains(key.allowed, " to ")) return key.allowed;
  return StrCat(key.allowed, ", up to ",
                narrow ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max());
}

const char* Shape(const YAML::Node& value) {
  if (value.IsMap()) return "a group of keys";
  if (value.IsSequence()) return "a list";
  return "a single value";
}

}  // namespace

void JobFileParser::Parse(const YAML::Node& document) {
  ParseGroup(document, "", &file_->spec);
  v1::JobSpec& spec = file_->spec;
  if (!spec.command().empty() && spec.working_directory().empty() && !spec.has_code()) {
    spec.set_working_directory(folder_);
  }
  if (document.IsMap()) return;
  for (const std::string& key : KeysBelow("")) broken_.insert(key);
}

void JobFileParser::ParseGroup(const YAML::Node& node, const std::string& path, Message* group) {
  const auto* choice = ChoiceOf(*group->GetDescriptor());
  // `model: resnet18` is short for `model: {kind: resnet18}`.
  if (choice != nullptr && node.IsScalar()) {
    file_->positions[Join(path, "kind")] = PositionOfNode(node);
    ParseChoice(FindKeyField(*group->GetDescriptor(), "kind"), Join(path, "kind"), node, group);
    return;
  }
  if (!node.IsMap()) {
    const std::string what = node.IsNull() ? "has no value" : StrCat("is ", Shape(node));
    if (path.empty()) {
      Tell(node, StrCat("the file ", what, "; a job is a group of keys, such as \"name: digits\""));
    } else {
      TellAt(path,
             StrCat(what, "; it takes a group of keys: ", absl::StrJoin(KeysBelow(path), ", ")));
    }
    return;
  }
  const std::map<std::string, Entry> entries = Entries(node, path);
  // What the other keys may be depends on the kind.
  const auto kind = entries.find("kind");
  if (kind != entries.end()) {
    ParseKey(*FindJobKey(Join(path, "kind")), Join(path, "kind"), kind->second.value, group);
  }
  for (const auto& [name, entry] : entries) {
    if (name == "kind") continue;
    const std::string key = Join(path, name);
    ParseKey(*FindJobKey(key), key, entry.value, group);
  }
}

std::map<std::string, JobFileParser::Entry> JobFileParser::Entries(const YAML::Node& node,
                                                                   const std::string& path) {
  std::map<std::string, Entry> entries;
  std::vector<YAML::Node> unknown;
  for (const auto& pair : node) {
    const std::string name = pair.first.IsScalar() ? pair.first.Scalar() : "";
    const std::string key = Join(path, name);
    if (FindJobKey(key) == nullptr || absl::StrContains(name, '.') ||
        absl::StrContains(name, '[')) {
      unknown.push_back(pair.first);
      continue;
    }
    if (entries.count(name) > 0) {
      const FilePosition first = file_->positions[key];
      Tell(pair.first, StrCat(key, " is given twice; first in line ", first.line));
      continue;
    }
    file_->positions[key] = PositionOfNode(pair.first);
    entries[name] = {pair.first, pair.second};
  }
  for (const YAML::Node& key : unknown) TellUnknown(key, path);
  return entries;
}

void JobFileParser::TellUnknown(const YAML::Node& key, const std::string& group) {
  const std::string where = group.empty() ? "" : StrCat(" in ", group);
  if (!key.IsScalar()) {
    Tell(key, StrCat("a key", where, " is ", Shape(key), "; keys are single words"));
    return;
  }
  std::string meant = Nearest(key.Scalar(), KeysBelow(group));
  if (!meant.empty()) {
    meant = Join(group, meant);
  } else {
    for (const JobKey& other : JobKeys()) {
      if (!absl::EndsWith(other.path, StrCat(".", key.Scalar()))) continue;
      meant = other.path;
      break;
    }
  }
  std::string message = StrCat("unknown key ", Quoted(key), where);
  if (!meant.empty()) {
    absl::StrAppend(&message, "; did you mean \"", meant, "\"?");
    // The key that was meant is not missing too.
    if (file_->positions.count(meant) == 0) broken_.insert(meant);
  } else {
    absl::StrAppend(&message, "; known are ", absl::StrJoin(KeysBelow(group), ", "));
  }
  Tell(key, message);
}

void JobFileParser::ParseGroups(const YAML::Node& node, const std::string& path,
                                const FieldDescriptor& field, Message* parent) {
  if (!node.IsSequence()) {
    TellAt(path, StrCat("is ", Shape(node), "; it takes a list of groups, each with ",
                        absl::StrJoin(KeysBelow(StrCat(path, "[]")), ", ")));
    return;
  }
  int index = 0;
  for (const YAML::Node& item : node) {
    const std::string item_path = StrCat(path, "[", index++, "]");
    file_->positions[item_path] = PositionOfNode(item);
    ParseGroup(item, item_path, parent->GetReflection()->AddMessage(parent, &field));
  }
}

void JobFileParser::ParseKey(const JobKey& key, const std::string& path, const YAML::Node& value,
                             Message* group) {
  const std::string name = path.substr(path.rfind('.') + 1);
  const KeyField field = FindKeyField(*group, name);
  Message* holder = Holder(field, path, group);
  if (holder == nullptr) return;
  const FieldDescriptor* list = field.field == nullptr ? nullptr : ListFormOf(*field.field);
  if (list != nullptr && value.IsSequence()) return ParseGroups(value, path, *list, holder);
  if (key.type == KeyType::kGroup) {
    ParseGroup(value, path, holder->GetReflection()->MutableMessage(holder, field.field));
    return;
  }
  if (key.type == KeyType::kGroups) {
    ParseGroups(value, path, *field.field, holder);
    return;
  }
  if (key.type == KeyType::kChoice) {
    if (CheckScalar(key, path, value)) ParseChoice(field, path, value, holder);
    return;
  }
  if (key.type == KeyType::kIntegers) {
    if (!value.IsSequence()) {
      TellAt(path, StrCat("is ", Shape(value), "; it takes a list such as ", key.example));
      return;
    }
    int index = 0;
    for (const YAML::Node& item : value) {
      const std::string item_path = StrCat(path, "[", index++, "]");
      file_->positions[item_path] = PositionOfNode(item);
      if (CheckScalar(key, item_path, item)) {
        ParseInteger(key, item_path, item, *field.field, holder);
      }
    }
    return;
  }
  if (key.type == KeyType::kTexts) return ParseTexts(key, path, value, *field.field, holder);
  if (key.type == KeyType::kLabels) return ParseLabels(key, path, value, *field.field, holder);
  if (!CheckScalar(key, path, value)) return;
  if (key.type == KeyType::kInteger) ParseInteger(key, path, value, *field.field, holder);
  if (key.type == KeyType::kNumber || key.type == KeyType::kBool) {
    ParseNumber(key, path, value, *field.field, holder);
  }
  if (key.type == KeyType::kText || key.type == KeyType::kPath) {
    ParseText(key, path, value, *field.field, holder);
  }
}

void JobFileParser::ParseChoice(const KeyField& field, const std::string& path,
                                const YAML::Node& value, Message* group) {
  const std::vector<std::string> names = AllowedNames(field);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != value.Scalar()) continue;
    const auto* reflection = group->GetReflection();
    if (field.choice != nullptr) {
      reflection->MutableMessage(group, field.choice->field(static_cast<int>(i)));
    } else {
      // Number 0 stands for "not given" and has no name.
      const auto* type = field.field->enum_type();
      reflection->SetEnum(group, field.field, type->value(static_cast<int>(i) + 1));
    }
    return;
  }
  const std::string meant = Nearest(value.Scalar(), names);
  TellAt(path, StrCat("is ", Quoted(value), "; allowed is ", absl::StrJoin(names, ", "),
                      meant.empty() ? "" : StrCat("; did you mean \"", meant, "\"?")));
}

Message* JobFileParser::Holder(const KeyField& field, const std::string& path, Message* group) {
  if (field.member == nullptr) return group;
  const FieldDescriptor* chosen = ChosenMember(*group);
  if (chosen == field.member) return group->GetReflection()->MutableMessage(group, chosen);
  const std::string kind = Join(path.substr(0, path.rfind('.')), "kind");
  // A missing or wrong kind is told by itself.
  const std::string& otherwise = FindJobKey(kind)->default_kind;
  if (chosen == nullptr && (otherwise.empty() || broken_.count(kind) > 0)) return nullptr;
  std::vector<std::string> kinds;
  for (const KeyField& one : KeyFields(*group->GetDescriptor())) {
    if (one.name() == field.name() && one.member != nullptr) kinds.push_back(one.member->name());
  }
  TellAt(path, StrCat("belongs to kind ", absl::StrJoin(kinds, " or "), "; the kind is ",
                      chosen == nullptr ? otherwise : chosen->name()));
  return nullptr;
}

void JobFileParser::ParseInteger(const JobKey& key, const std::string& path,
                                 const YAML::Node& value, const FieldDescriptor& field,
                                 Message* holder) {
  int64_t number = 0;
  const bool narrow = field.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
  if (IsQuoted(value) || !absl::SimpleAtoi(value.Scalar(), &number)) {
    if (!IsQuoted(value) && IsDigits(value.Scalar())) {
      TellAt(path, StrCat("is too large; allowed is ", AllowedText(key, narrow)));
      return;
    }
    TellAt(path, StrCat("is ", Quoted(value), "; it takes a whole number",
                        IsQuoted(value) ? " without quotes" : ""));
    return;
  }
  const bool fits = !narrow || (number >= std::numeric_limits<int32_t>::min() &&
                                number <= std::numeric_limits<int32_t>::max());
  if (!fits || (key.no_zero && number == 0)) {
    TellAt(path,
           StrCat("is ", number, "; allowed is ", fits ? key.allowed : AllowedText(key, narrow)));
    return;
  }
  const auto* reflection = holder->GetReflection();
  if (field.is_repeated()) {
    reflection->AddInt64(holder, &field, number);
  } else if (narrow) {
    reflection->SetInt32(holder, &field, static_cast<int32_t>(number));
  } else {
    reflection->SetInt64(holder, &field, number);
  }
}

void JobFileParser::ParseNumber(const JobKey& key, const std::string& path, const YAML::Node& value,
                                const FieldDescriptor& field, Message* holder) {
  if (key.type == KeyType::kBool) {
    const std::string& text = value.Scalar();
    if (IsQuoted(value) || (text != "true" && text != "false")) {
      TellAt(path, StrCat("is ", Quoted(value), "; it takes true or false"));
      return;
    }
    holder->GetReflection()->SetBool(holder, &field, text == "true");
    return;
  }
  double number = 0;
  if (IsQuoted(value) || !absl::SimpleAtod(value.Scalar(), &number) || !std::isfinite(number)) {
    TellAt(path, StrCat("is ", Quoted(value), "; it takes a ",
                        IsQuoted(value) ? "number without quotes" : "finite number"));
    return;
  }
  if (key.no_zero && number == 0) {
    TellAt(path, StrCat("is ", value.Scalar(), "; allowed is ", key.allowed));
    return;
  }
  holder->GetReflection()->SetDouble(holder, &field, number);
}

void JobFileParser::ParseText(const JobKey& key, const std::string& path, const YAML::Node& value,
                              const FieldDescriptor& field, Message* holder) {
  std::string text = value.Scalar();
  if (text.empty()) {
    TellAt(path, "is empty; give a value or leave the key out");
    return;
  }
  // The name of a checkpoint, or its path.
  const bool place = key.type == KeyType::kPath || path == "resume_from";
  const std::string problem = place ? ShellPathProblem(text) : "";
  if (!problem.empty()) {
    TellAt(path, StrCat("is ", Quoted(value), "; ", SanitizeLine(problem)));
    return;
  }
  if (key.type == KeyType::kPath && !IsObjectUrl(text)) {
    text = (std::filesystem::path(folder_) / text).lexically_normal().string();
  }
  holder->GetReflection()->SetString(holder, &field, text);
}

void JobFileParser::ParseTexts(const JobKey& key, const std::string& path, const YAML::Node& value,
                               const FieldDescriptor& field, Message* holder) {
  if (!value.IsSequence()) {
    TellAt(path, StrCat("is ", Shape(value), "; it takes a list such as ", key.example));
    return;
  }
  int index = 0;
  for (const YAML::Node& item : value) {
    const std::string item_path = StrCat(path, "[", index++, "]");
    file_->positions[item_path] = PositionOfNode(item);
    if (!CheckScalar(key, item_path, item)) continue;
    holder->GetReflection()->AddString(holder, &field, item.Scalar());
  }
}

void JobFileParser::ParseLabels(const JobKey& key, const std::string& path, const YAML::Node& value,
                                const FieldDescriptor& field, Message* holder) {
  if (!value.IsMap()) {
    TellAt(path, StrCat("is ", Shape(value), "; it takes labels such as ", key.example));
    return;
  }
  std::set<std::string> labels;
  for (const auto& pair : value) {
    if (!pair.first.IsScalar() || !pair.second.IsScalar()) {
      TellAt(path, StrCat("has a label that is no text with a text; write ", key.example));
      continue;
    }
    if (!labels.insert(pair.first.Scalar()).second) {
      TellAt(path, StrCat("has the label ", Quoted(pair.first), " twice"));
      continue;
    }
    Message* entry = holder->GetReflection()->AddMessage(holder, &field);
    const auto* type = field.message_type();
    entry->GetReflection()->SetString(entry, type->FindFieldByName("key"), pair.first.Scalar());
    entry->GetReflection()->SetString(entry, type->FindFieldByName("value"), pair.second.Scalar());
  }
}

bool JobFileParser::CheckScalar(const JobKey& key, const std::string& path,
                                const YAML::Node& value) {
  if (value.IsScalar()) return true;
  if (value.IsNull()) {
    TellAt(path, "has no value; give one or leave the key out");
  } else {
    const char* type = key.type == KeyType::kIntegers ? "whole number"
                       : key.type == KeyType::kTexts  ? "text"
                                                      : TypeName(key.type);
    TellAt(path, StrCat("is ", Shape(value), "; it takes a ", type));
  }
  return false;
}

void JobFileParser::Tell(const YAML::Node& node, const std::string& message) {
  file_->problems.push_back({PositionOfNode(node), message});
}

void JobFileParser::TellAt(const std::string& path, const std::string& message) {
  const auto at = file_->positions.find(path);
  const FilePosition position = at == file_->positions.end() ? FilePosition{} : at->second;
  file_->problems.push_back({position, StrCat(path, " ", message)});
  broken_.insert(path);
}

}  // namespace paceline
