#include "controller/grpc_port.h"

#include <grpc/support/log.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/core/host_port.h"
#include "common/core/status_macros.h"
#include "common/event_loop.h"
#include "common/log.h"
#include "controller/core/requests/rate_limit.h"

namespace paceline {
namespace {

constexpr int kKeepaliveMillis = 10000;
// Clients that know several controllers often check whether this one is still there
// (common/leader_address.h).
constexpr int kMinPingMillis = 1000;
// Fits a worker's report with its trainers' log tails; a job is far smaller (common/job_spec).
constexpr int kMaxMessageBytes = 16 << 20;
// Names and a token in a call's headers. This is gRPC's own default.
constexpr int kMaxHeaderBytes = 8 << 10;
// Calls at once on one connection; further calls wait at the client. Many nodes or watchers may
// come through one proxy.
constexpr int kMaxCallsPerConnection = 4096;
// Memory of gRPC for all connections: 16 of the largest messages, and the buffers of 10,000
// streams. Beyond it gRPC takes back what it can from connections.
constexpr size_t kMaxGrpcBytes = size_t{512} << 20;
// Threads of gRPC's synchronous services, which is reflection alone: each of its open streams holds
// a thread, and one more thread refuses streams beyond that. Tools ask once and go. Our services
// and health use callbacks, whose threads do not count.
constexpr int kMaxSyncThreads = 16;
// A client that makes no calls is taken for gone; it reconnects by itself when it has one.
constexpr absl::Duration kMaxIdle = absl::Minutes(10);

// gRPC's own log lines per second, and in a burst: it writes one for each failed handshake.
constexpr double kLogLines = 1;
constexpr double kLogBurst = 20;

// Receives the lines that gRPC would log by itself. Thread-safe.
class GrpcLog {
 public:
  static void Take(gpr_log_func_args* line) {
    static auto& log = *new GrpcLog;
    // Other severities come only if somebody has asked for them (GRPC_VERBOSITY).
    const int64_t left_out = line->severity == GPR_LOG_SEVERITY_ERROR ? log.Admit() : 0;
    if (left_out < 0) return;
    PACELINE_LOG(WARNING) << "grpc reason=\"" << line->message << "\" left_out=" << left_out;
  }

 private:
  // Returns how many lines were left out before this one; negative: this one is left out, too.
  int64_t Admit() ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    if (rate_.Take("", EventLoop::Now()) == absl::ZeroDuration()) {
      return std::exchange(left_out_, 0);
    }
    ++left_out_;
    return -1;
  }

  absl::Mutex mutex_;
  RateLimit rate_ ABSL_GUARDED_BY(mutex_){{kLogLines, kLogBurst}};
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

int Millis(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

void LimitClients(grpc::ServerBuilder& builder, absl::Duration handshake_patience) {
  gpr_set_log_function(GrpcLog::Take);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMillis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMillis);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Millis(handshake_patience));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Millis(kMaxIdle));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCallsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxHeaderBytes);
  builder.SetResourceQuota(
      grpc::ResourceQuota("paceline").Resize(kMaxGrpcBytes).SetMaxThreads(kMaxSyncThreads));
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
}

absl::StatusOr<GrpcPort> OpenGrpcPort(grpc::ServerBuilder& builder, const std::string& listen,
                                      const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  PACELINE_ASSIGN_OR_RETURN(const HostPort at, ParseHostPort(listen));
  // Two controllers must not share a port unnoticed.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingMillis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  int port = 0;
  builder.AddListeningPort(listen, credentials, &port);
  GrpcPort opened;
  opened.server = builder.BuildAndStart();
  if (opened.server == nullptr || port == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot listen on ", listen, ": the port is in use, or the address is not this host's"));
  }
  opened.address = JoinHostPort(at.host, port);
  return opened;
}

}  // namespace paceline
