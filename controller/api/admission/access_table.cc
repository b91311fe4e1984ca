#include "controller/api/admission/access_table.h"

#include <iterator>
#include <map>

#include "proto/methods.h"

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
    {"/paceline.v1.JobService/ChangeLabels", Role::kSubmitter, kOwn},
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

    {"/paceline.v1.TelemetryService/GetCurves", Role::kViewer, kOwn},
    {"/paceline.v1.TelemetryService/GetRanks", Role::kViewer, kOwn},
    {"/paceline.v1.TelemetryService/GetSeries", Role::kViewer, kOwn},
    {"/paceline.v1.TelemetryService/GetSteps", Role::kViewer, kOwn},
    {"/paceline.v1.TelemetryService/ListJobs", Role::kViewer, kOwn},

    // For its own node only: see worker_identity.h.
    {"/paceline.v1.WorkerService/Session", Role::kWorker},
};

constexpr int CountRows(absl::string_view method) {
  int rows = 0;
  for (const MethodRule& rule : kRules) rows += rule.method == method ? 1 : 0;
  return rows;
}

// Each method of the protos has one row, and beside these there are gRPC's own three.
#define PACELINE_NEEDS_ROW(path) static_assert(CountRows(path) == 1, "not one row for " path);
#define PACELINE_ONE_MORE(path) +1
PACELINE_FOR_EACH_METHOD(PACELINE_NEEDS_ROW)
static_assert(std::size(kRules) == 3 PACELINE_FOR_EACH_METHOD(PACELINE_ONE_MORE),
              "a row of what is no method");
#undef PACELINE_ONE_MORE
#undef PACELINE_NEEDS_ROW

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

}  // namespace paceline
