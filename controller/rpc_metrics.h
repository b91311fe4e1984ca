// What gRPC's clients ask of the controller, by the names that other servers' interceptors use
// (grpc_server_...): an interceptor that counts calls when they begin and end, and times unary
// ones.
//
// The labels are those of methods that the program knows; a name that a client made up counts as
// "unknown".
//
// Thread-safe.
#ifndef CONTROLLER_RPC_METRICS_H_
#define CONTROLLER_RPC_METRICS_H_

#include <grpcpp/support/server_interceptor.h>
#include <grpcpp/support/status_code_enum.h>

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/metrics/metric_registry.h"

namespace paceline {

// "InvalidArgument", as in grpc_code.
const char* RpcCodeLabel(grpc::StatusCode code);

class RpcMetrics {
 public:
  using Type = grpc::experimental::ServerRpcInfo::Type;

  // The series of one method. Lives as long as the metrics.
  class Method;

  // `registry` outlives this.
  explicit RpcMetrics(MetricRegistry& registry);
  ~RpcMetrics();

  // For ServerBuilder; this outlives the server.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> NewInterceptors();

  // A call of "/package.Service/Method" has begun; what is returned is told of its end.
  Method* Begin(const std::string& path, Type type) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(Method* method, grpc::StatusCode code, absl::Duration took);

 private:
  Counters& started_;
  Counters& handled_;
  Histograms handling_;

  absl::Mutex mutex_;
  std::map<std::string, std::unique_ptr<Method>> methods_ ABSL_GUARDED_BY(mutex_);  // By path.
};

}  // namespace paceline

#endif  // CONTROLLER_RPC_METRICS_H_
