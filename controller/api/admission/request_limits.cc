#include "controller/api/admission/request_limits.h"

#include <google/protobuf/descriptor.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_spec/message_limits.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kSpec[] = "paceline.v1.SubmitJobRequest.spec";
constexpr char kCode[] = "paceline.v1.UploadCodeRequest.data";

constexpr OwnLimit kOwnLimits[] = {
    {kSpec, 0},
    {kCode, kMaxCodePart},
    {"paceline.v1.JoinRequest.csr_pem", kMaxCsrBytes},
    {"paceline.v1.RenewRequest.csr_pem", kMaxCsrBytes},
};

size_t BytesWithoutLarge(const Message& request) {
  size_t bytes = request.ByteSizeLong();
  std::vector<const FieldDescriptor*> fields;
  request.GetReflection()->ListFields(request, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->full_name() == kSpec) {
      bytes -= request.GetReflection()->GetMessage(request, field).ByteSizeLong();
    } else if (field->full_name() == kCode) {
      bytes -= request.GetReflection()->GetString(request, field).size();
    }
  }
  return bytes;
}

}  // namespace

grpc::Status CheckRequestLimits(const Message& request) {
  const MessageLimits limits{kMaxRequestText, kMaxRequestItems, kMaxRequestItems, kOwnLimits};
  std::vector<SpecProblem> problems = CheckMessageLimits(request, limits);
  if (problems.empty() && BytesWithoutLarge(request) > kMaxRequestBytes) {
    problems.push_back({"request", absl::StrCat("has ", BytesWithoutLarge(request),
                                                " bytes; allowed are ", kMaxRequestBytes)});
  }
  if (problems.empty()) return grpc::Status::OK;
  return FieldsError("REQUEST_INVALID", "this cannot be asked", problems);
}

}  // namespace paceline
