#include <string>
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
  explicit LimitCheck(ProblemList& problems) : problems_(problems) {}

  void Walk(const Message& message, const std::string& path) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const std::string name = StrCat(path, field->name());
      if (!field->is_repeated()) {
        CheckOne(message, *field, name);
      } else if (CheckCount(message, *field, name)) {
        CheckElements(message, *field, name);
      }
    }
  }

 private:
  void CheckOne(const Message& message, const FieldDescriptor& field, const std::string& name) {
    const auto* reflection = message.GetReflection();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      std::string scratch;
      CheckText(reflection->GetStringReference(message, &field, &scratch), name);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Walk(reflection->GetMessage(message, &field), StrCat(name, "."));
    }
  }

  bool CheckCount(const Message& message, const FieldDescriptor& field, const std::string& name) {
    const int most = field.is_map() ? kMaxSpecLabels : kMaxSpecItems;
    const int count = message.GetReflection()->FieldSize(message, &field);
    if (count <= most) return true;
    problems_.Add(name, StrCat("has ", count, " entries; allowed are ", most));
    return false;
  }

  void CheckElements(const Message& message, const FieldDescriptor& field,
                     const std::string& name) {
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
                  StrCat(name, "[", i, "]"));
      }
    }
  }

  void CheckText(const std::string& text, const std::string& name) {
    if (text.size() <= kMaxSpecText) return;
    problems_.Add(name, StrCat("has ", text.size(), " bytes; allowed are ", kMaxSpecText));
  }

  ProblemList& problems_;
};

}  // namespace

void CheckLimits(const v1::JobSpec& spec, ProblemList& problems) {
  LimitCheck(problems).Walk(spec, "");
  if (!problems.empty() || spec.ByteSizeLong() <= kMaxSpecBytes) return;
  problems.Add("spec", StrCat("has ", spec.ByteSizeLong(), " bytes; allowed are ", kMaxSpecBytes));
}

}  // namespace paceline
