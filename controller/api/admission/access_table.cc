#include "controller/api/admission/access_table.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor_database.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

constexpr Scope kOwn = Scope::kOwn;

constexpr MethodRule kRules[] = {
    // gRPC's own services: probes have no certificate and make single calls. Health streams, which
    // anybody could keep open, and the list of services require a viewer.
    {"/grpc.health.v1.Health/Check", Role::kNone},
    {"/grpc.health.v1.Health/Watch", Role::kViewer},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Role::kViewer},

    {"/paceline.v1.AdminService/Backup", Role::kAdmin},
    {"/paceline.v1.AdminService/GetLogLevel", Role::kViewer},
    {"/paceline.v1.AdminService/SetLogLevel", Role::kAdmin},

    {"/paceline.v1.AutomationService/GetStatus", Role::kViewer},
    {"/paceline.v1.AutomationService/Pause", Role::kOperator},
    {"/paceline.v1.AutomationService/Resume", Role::kOperator},

    {"/paceline.v1.CheckpointService/Delete", Role::kSubmitter, kOwn},
    {"/paceline.v1.CheckpointService/Get", Role::kViewer, kOwn},
    {"/paceline.v1.CheckpointService/List", Role::kViewer, kOwn},
    {"/paceline.v1.CheckpointService/Pin", Role::kSubmitter, kOwn},
    {"/paceline.v1.CheckpointService/Save", Role::kSubmitter, kOwn},

    // A node that joins has no certificate; the method itself checks the node's token.
    {"/paceline.v1.IdentityService/CreateJoinToken", Role::kAdmin},
    {"/paceline.v1.IdentityService/Join", Role::kNone},
    {"/paceline.v1.IdentityService/ListRevoked", Role::kAdmin},
    {"/paceline.v1.IdentityService/Renew", Role::kNone, Scope::kSelf},
    {"/paceline.v1.IdentityService/Revoke", Role::kAdmin},
    {"/paceline.v1.IdentityService/WhoAmI", Role::kNone},

    {"/paceline.v1.JobHistoryService/Get", Role::kViewer, kOwn},
    {"/paceline.v1.JobHistoryService/Watch", Role::kViewer, kOwn},

    {"/paceline.v1.JobService/Advise", Role::kViewer, kOwn},
    {"/paceline.v1.JobService/ApplyAdvice", Role::kSubmitter, kOwn},
    {"/paceline.v1.JobService/Cancel", Role::kSubmitter, kOwn},
    {"/paceline.v1.JobService/ChangeLadder", Role::kSubmitter, kOwn},
    {"/paceline.v1.JobService/ChangeMode", Role::kSubmitter, kOwn},
    {"/paceline.v1.JobService/Get", Role::kViewer, kOwn},
    {"/paceline.v1.JobService/List", Role::kViewer, kOwn},
    {"/paceline.v1.JobService/ListDecisions", Role::kViewer, kOwn},
    {"/paceline.v1.JobService/Profile", Role::kSubmitter, kOwn},
    {"/paceline.v1.JobService/Resume", Role::kSubmitter, kOwn},
    {"/paceline.v1.JobService/StreamLogs", Role::kViewer, kOwn},
    {"/paceline.v1.JobService/Submit", Role::kSubmitter, kOwn},
    {"/paceline.v1.JobService/UploadCode", Role::kSubmitter, kOwn},
    {"/paceline.v1.JobService/Watch", Role::kViewer, kOwn},
    {"/paceline.v1.JobService/Why", Role::kViewer, kOwn},

    {"/paceline.v1.NodeService/Check", Role::kOperator},
    {"/paceline.v1.NodeService/Cordon", Role::kOperator},
    {"/paceline.v1.NodeService/DeclareLost", Role::kOperator},
    {"/paceline.v1.NodeService/Drain", Role::kOperator},
    {"/paceline.v1.NodeService/Get", Role::kViewer},
    {"/paceline.v1.NodeService/History", Role::kViewer},
    {"/paceline.v1.NodeService/List", Role::kViewer},
    {"/paceline.v1.NodeService/Resume", Role::kOperator},
    {"/paceline.v1.NodeService/Uncordon", Role::kOperator},
    {"/paceline.v1.NodeService/Watch", Role::kViewer},

    {"/paceline.v1.TelemetryService/GetRanks", Role::kViewer, kOwn},
    {"/paceline.v1.TelemetryService/GetSeries", Role::kViewer, kOwn},
    {"/paceline.v1.TelemetryService/GetSteps", Role::kViewer, kOwn},
    {"/paceline.v1.TelemetryService/ListJobs", Role::kViewer, kOwn},

    // For its own node only: see worker_identity.h.
    {"/paceline.v1.WorkerService/Session", Role::kWorker},
};

constexpr bool HasRow(absl::string_view method) {
  for (const MethodRule& rule : kRules) {
    if (rule.method == method) return true;
  }
  return false;
}

// A method of proto/*.proto without a row fails the build. CheckRules checks the converse.
#define PACELINE_NEEDS_ROW(method) static_assert(HasRow(method), "no row for " method)
#include "controller/api/admission/served_methods.inc"
#undef PACELINE_NEEDS_ROW

// Health is served without a descriptor.
constexpr const char* kStandardMethods[] = {
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
};

}  // namespace

absl::Span<const MethodRule> MethodRules() { return kRules; }

const MethodRule* FindRule(absl::string_view method) {
  static const auto& rules = *[] {
    auto* by_method = new std::map<absl::string_view, const MethodRule*>;
    for (const MethodRule& rule : kRules) by_method->emplace(rule.method, &rule);
    return by_method;
  }();
  const auto found = rules.find(method);
  return found == rules.end() ? nullptr : found->second;
}

bool MayCall(Role role, const MethodRule& rule) {
  if (rule.scope == Scope::kSelf) return role != Role::kNone;
  return Includes(role, rule.role);
}

std::vector<std::string> ServedMethods() {
  using google::protobuf::DescriptorPool;
  std::vector<std::string> methods(std::begin(kStandardMethods), std::end(kStandardMethods));
  std::vector<std::string> files;
  DescriptorPool::internal_generated_database()->FindAllFileNames(&files);
  for (const std::string& name : files) {
    const auto* file = DescriptorPool::generated_pool()->FindFileByName(name);
    if (file == nullptr || file->package() != "paceline.v1") continue;
    for (int s = 0; s < file->service_count(); ++s) {
      const google::protobuf::ServiceDescriptor& service = *file->service(s);
      for (int m = 0; m < service.method_count(); ++m) {
        methods.push_back(absl::StrCat("/", service.full_name(), "/", service.method(m)->name()));
      }
    }
  }
  std::sort(methods.begin(), methods.end());
  return methods;
}

absl::Status CheckRules(absl::Span<const MethodRule> rules,
                        const std::vector<std::string>& methods) {
  std::set<std::string> without_rule(methods.begin(), methods.end());
  const std::set<std::string> served = without_rule;
  std::set<std::string> seen;
  std::string problems;
  for (const MethodRule& rule : rules) {
    const std::string method(rule.method);
    without_rule.erase(method);
    if (!seen.insert(method).second) absl::StrAppend(&problems, "\n  two rows for ", method);
    if (served.count(method) == 0) absl::StrAppend(&problems, "\n  no method for row ", method);
  }
  for (const std::string& method : without_rule) {
    absl::StrAppend(&problems, "\n  no row for ", method);
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the table of roles does not fit the services:", problems));
}

}  // namespace paceline
