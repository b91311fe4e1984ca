#include "common/job_spec/message_limits.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Every text and list of the message, whatever it is for; `path`: of the message, with a point.
class LimitCheck {
 public:
  LimitCheck(const MessageLimits& limits, ProblemList& problems)
      : limits_(limits), problems_(problems) {}

  void Walk(const Message& message, const std::string& path) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const size_t most = MostText(*field);
      if (most == 0) continue;
      const std::string name = StrCat(path, field->name());
      if (!field->is_repeated()) {
        CheckOne(message, *field, name, most);
      } else if (CheckCount(message, *field, name)) {
        CheckElements(message, *field, name, most);
      }
    }
  }

 private:
  // Bytes of the field's text. 0: the field is not looked at.
  size_t MostText(const FieldDescriptor& field) const {
    for (const OwnLimit& own : limits_.own) {
      if (own.field == field.full_name()) return own.text;
    }
    return limits_.text;
  }

  void CheckOne(const Message& message, const FieldDescriptor& field, const std::string& name,
                size_t most) {
    const auto* reflection = message.GetReflection();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      std::string scratch;
      CheckText(reflection->GetStringReference(message, &field, &scratch), name, most);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Walk(reflection->GetMessage(message, &field), StrCat(name, "."));
    }
  }

  bool CheckCount(const Message& message, const FieldDescriptor& field, const std::string& name) {
    const int most = field.is_map() ? limits_.labels : limits_.items;
    const int count = message.GetReflection()->FieldSize(message, &field);
    if (count <= most) return true;
    problems_.Add(name, StrCat("has ", count, " entries; allowed are ", most));
    return false;
  }

  void CheckElements(const Message& message, const FieldDescriptor& field, const std::string& name,
                     size_t most) {
    const auto* reflection = message.GetReflection();
    for (int i = 0; i < reflection->FieldSize(message, &field); ++i) {
      if (field.is_map()) {
        // Labels: a problem is one of all of them.
        Walk(reflection->GetRepeatedMessage(message, &field, i), StrCat(name, "."));
      } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        Walk(reflection->GetRepeatedMessage(message, &field, i), StrCat(name, "[", i, "]."));
      } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        std::string scratch;
        CheckText(reflection->GetRepeatedStringReference(message, &field, i, &scratch),
                  StrCat(name, "[", i, "]"), most);
      }
    }
  }

  void CheckText(const std::string& text, const std::string& name, size_t most) {
    if (text.size() <= most) return;
    problems_.Add(name, StrCat("has ", text.size(), " bytes; allowed are ", most));
  }

  const MessageLimits& limits_;
  ProblemList& problems_;
};

}  // namespace

std::vector<SpecProblem> CheckMessageLimits(const Message& message, const MessageLimits& limits) {
  ProblemList problems;
  LimitCheck(limits, problems).Walk(message, "");
  return problems.Take();
}

void CheckLimits(const v1::JobSpec& spec, ProblemList& problems) {
  const MessageLimits limits{kMaxSpecText, kMaxSpecItems, kMaxSpecLabels};
  for (SpecProblem& problem : CheckMessageLimits(spec, limits)) {
    problems.Add(std::move(problem.field), std::move(problem.message));
  }
  if (!problems.empty() || spec.ByteSizeLong() <= kMaxSpecBytes) return;
  problems.Add("spec", StrCat("has ", spec.ByteSizeLong(), " bytes; allowed are ", kMaxSpecBytes));
}

std::vector<SpecProblem> CheckSpecSizes(const v1::JobSpec& spec) {
  ProblemList problems;
  CheckLimits(spec, problems);
  return problems.Take();
}

}  // namespace paceline
