#include "controller/api/admission/caller.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/user_metadata.h"

namespace paceline {
namespace {

// "ROLE NAME", as the interceptor writes it.
constexpr char kCallerMetadata[] = "paceline-caller";

class CallerInterceptor : public grpc::experimental::Interceptor {
 public:
  CallerInterceptor(const CallerFinder& find, grpc::ServerContextBase* context)
      : find_(find), context_(context) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Point::POST_RECV_INITIAL_METADATA)) {
      auto* metadata = methods->GetRecvInitialMetadata();
      if (metadata != nullptr) {
        metadata->erase(kCallerMetadata);
        const Principal caller = find_(*context_);
        caller_ = absl::StrCat(RoleName(caller.role), " ", caller.name);
        metadata->emplace(kCallerMetadata, caller_);
        metadata->erase(kAuthorizationMetadata);
      }
    }
    methods->Proceed();
  }

 private:
  const CallerFinder& find_;
  grpc::ServerContextBase* const context_;
  std::string caller_;  // Must outlive the metadata, which refer to it; lives as long as the call.
};

class CallerInterceptors : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CallerInterceptors(CallerFinder find) : find_(std::move(find)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    // gRPC's own services do not ask who calls.
    if (!absl::StartsWith(info->method(), "/paceline.")) return nullptr;
    return new CallerInterceptor(find_, info->server_context());
  }

 private:
  const CallerFinder find_;
};

}  // namespace

Principal CallerOf(const grpc::ServerContextBase& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(kCallerMetadata);
  if (found == metadata.end()) return {};
  const absl::string_view text(found->second.data(), found->second.size());
  const size_t blank = text.find(' ');
  const absl::StatusOr<Role> role = ParseRole(text.substr(0, blank));
  if (!role.ok()) return {};
  return {*role, std::string(text.substr(blank + 1))};
}

Principal CallerByWord(const grpc::ServerContextBase& context) {
  const auto& metadata = context.client_metadata();
  const auto user = metadata.find(kUserMetadata);
  if (user == metadata.end()) return {Role::kAdmin, ""};
  return {Role::kAdmin, std::string(user->second.data(), user->second.size())};
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallerInterceptors(
    CallerFinder find) {
  return std::make_unique<CallerInterceptors>(std::move(find));
}

}  // namespace paceline
