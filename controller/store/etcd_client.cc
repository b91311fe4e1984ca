#include "controller/store/etcd_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/core/loopback.h"
#include "common/core/status_macros.h"
#include "common/event_loop.h"
#include "common/tls/credentials.h"
#include "common/tls/private_file.h"
#include "common/tls/tls_files.h"
#include "etcd/rpc.grpc.pb.h"

namespace paceline {
namespace {

// etcd refuses pings that come more often than every 5 s (--grpc-keepalive-min-time).
constexpr int kKeepaliveMillis = 10'000;
constexpr int kKeepaliveTimeoutMillis = 3'000;
constexpr int kFirstReconnectMillis = 100;
constexpr int kMaxReconnectMillis = 1000;
constexpr absl::Duration kPause = absl::Milliseconds(50);

// Problems with the files are reported at the start; files that change later apply to later
// connections.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const std::string& tls_dir) {
  if (tls_dir.empty()) return grpc::InsecureChannelCredentials();
  const TlsFiles files = FilesIn(tls_dir);
  PACELINE_RETURN_IF_ERROR(ReadWhole(files.ca).status());
  PACELINE_RETURN_IF_ERROR(ReadWhole(files.certificate).status());
  PACELINE_RETURN_IF_ERROR(ReadPrivate(files.key).status());
  return ChannelCredentials(files);
}

std::shared_ptr<grpc::Channel> NewChannel(
    const std::string& endpoint, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMillis);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMillis);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMillis);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kMaxReconnectMillis);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMillis);
  // Ignores the proxy of the environment, which is meant for the outside world.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Pages of a load may be large; etcd limits what is written.
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(endpoint, credentials, arguments);
}

// Whether another member may still answer.
bool IsAway(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
      return true;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return absl::StrContains(status.error_message(), "too many requests");
    default:
      return false;
  }
}

}  // namespace

struct EtcdClient::Member {
  explicit Member(const std::shared_ptr<grpc::Channel>& to)
      : channel(to),
        kv(etcdserverpb::KV::NewStub(channel)),
        lease(etcdserverpb::Lease::NewStub(channel)),
        watch(etcdserverpb::Watch::NewStub(channel)),
        maintenance(etcdserverpb::Maintenance::NewStub(channel)) {}
  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<etcdserverpb::KV::Stub> kv;
  const std::unique_ptr<etcdserverpb::Lease::Stub> lease;
  const std::unique_ptr<etcdserverpb::Watch::Stub> watch;
  const std::unique_ptr<etcdserverpb::Maintenance::Stub> maintenance;
};

// A call that Cancel can end.
class EtcdClient::Running {
 public:
  Running(EtcdClient& client, absl::Duration limit) : client_(client) {
    context_.set_deadline(absl::ToChronoTime(absl::Now() + limit));
    absl::MutexLock lock(&client_.mutex_);
    client_.running_.insert(&context_);
    if (client_.cancelled_) context_.TryCancel();
  }
  ~Running() {
    absl::MutexLock lock(&client_.mutex_);
    client_.running_.erase(&context_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  grpc::ClientContext* context() { return &context_; }

 private:
  EtcdClient& client_;
  grpc::ClientContext context_;
};

absl::StatusOr<std::unique_ptr<EtcdClient>> EtcdClient::Create(const Options& options) {
  if (options.endpoints.empty()) return absl::InvalidArgumentError("no endpoint of etcd is given");
  for (const std::string& endpoint : options.endpoints) {
    if (!absl::StrContains(endpoint, "://") && absl::StrContains(endpoint, ':')) continue;
    return absl::InvalidArgumentError(absl::StrCat("\"", endpoint,
                                                   "\" is no endpoint of etcd: give HOST:PORT, "
                                                   "without http://"));
  }
  const std::string endpoints = absl::StrJoin(options.endpoints, ",");
  if (options.tls_dir.empty() && !IsLoopback(endpoints)) {
    return absl::InvalidArgumentError(
        absl::StrCat("etcd at ", endpoints,
                     " is reached over a network, where anybody could read and change the "
                     "cluster's state: give certificates for it with --etcd-tls-dir"));
  }
  PACELINE_ASSIGN_OR_RETURN(const auto credentials, Credentials(options.tls_dir));
  return std::unique_ptr<EtcdClient>(new EtcdClient(options.endpoints, credentials));
}

EtcdClient::EtcdClient(const std::vector<std::string>& endpoints,
                       const std::shared_ptr<grpc::ChannelCredentials>& credentials)
    : name_(absl::StrCat("etcd at ", absl::StrJoin(endpoints, ","))) {
  for (const std::string& endpoint : endpoints) {
    members_.push_back(std::make_unique<Member>(NewChannel(endpoint, credentials)));
  }
}

EtcdClient::~EtcdClient() = default;

void EtcdClient::Leave(size_t member) {
  member_.compare_exchange_strong(member, (member + 1) % members_.size());
}

bool EtcdClient::Pause() {
  // gRPC reconnects only while somebody waits for it.
  members_[member_]->channel->WaitForConnected(absl::ToChronoTime(absl::Now() + kPause));
  absl::MutexLock lock(&mutex_);
  return cancelled_;
}

void EtcdClient::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* context : running_) context->TryCancel();
}

absl::Status EtcdClient::Try(Patience patience, const Call& call) {
  const absl::Time deadline = EventLoop::Now() + patience.limit;
  while (true) {
    const size_t member = member_;
    const absl::Duration left = deadline - EventLoop::Now();
    grpc::Status status;
    {
      Running running(*this, std::min(left, patience.attempt));
      status = call(*members_[member], running.context());
    }
    if (status.ok()) return absl::OkStatus();
    const std::string line = absl::StrCat(name_, ": ", status.error_message());
    // Abseil and gRPC use the same numbers for codes.
    if (!IsAway(status)) {
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()), line);
    }
    Leave(member);
    if (Pause()) return absl::CancelledError(line);
    if (EventLoop::Now() >= deadline) return absl::UnavailableError(line);
  }
}

absl::StatusOr<etcdserverpb::RangeResponse> EtcdClient::Range(
    const etcdserverpb::RangeRequest& request, Patience patience) {
  etcdserverpb::RangeResponse response;
  PACELINE_RETURN_IF_ERROR(Try(patience, [&](Member& member, grpc::ClientContext* context) {
    return member.kv->Range(context, request, &response);
  }));
  return response;
}

absl::StatusOr<etcdserverpb::TxnResponse> EtcdClient::Txn(const etcdserverpb::TxnRequest& request,
                                                          Patience patience) {
  etcdserverpb::TxnResponse response;
  PACELINE_RETURN_IF_ERROR(Try(patience, [&](Member& member, grpc::ClientContext* context) {
    return member.kv->Txn(context, request, &response);
  }));
  return response;
}

absl::StatusOr<EtcdClient::Lease> EtcdClient::GrantLease(absl::Duration length, Patience patience) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(absl::ToInt64Seconds(absl::Ceil(length, absl::Seconds(1))));
  etcdserverpb::LeaseGrantResponse response;
  PACELINE_RETURN_IF_ERROR(Try(patience, [&](Member& member, grpc::ClientContext* context) {
    return member.lease->LeaseGrant(context, request, &response);
  }));
  return Lease{response.id(), absl::Seconds(response.ttl())};
}

absl::StatusOr<absl::Duration> EtcdClient::KeepLeaseAlive(int64_t lease, Patience patience) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse response;
  PACELINE_RETURN_IF_ERROR(Try(patience, [&](Member& member, grpc::ClientContext* context) {
    const auto stream = member.lease->LeaseKeepAlive(context);
    const bool answered = stream->Write(request) && stream->Read(&response);
    if (answered) context->TryCancel();
    const grpc::Status status = stream->Finish();
    if (answered) return grpc::Status::OK;
    return status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream has ended")
                       : status;
  }));
  return absl::Seconds(std::max<int64_t>(response.ttl(), 0));
}

absl::Status EtcdClient::RevokeLease(int64_t lease, Patience patience) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseRevokeResponse response;
  return Try(patience, [&](Member& member, grpc::ClientContext* context) {
    return member.lease->LeaseRevoke(context, request, &response);
  });
}

bool EtcdClient::WaitForDeletion(const std::string& key, int64_t revision, absl::Duration limit) {
  etcdserverpb::WatchRequest request;
  etcdserverpb::WatchCreateRequest& create = *request.mutable_create_request();
  create.set_key(key);
  create.set_start_revision(revision + 1);
  create.add_filters(etcdserverpb::WatchCreateRequest::NOPUT);
  const size_t member = member_;
  const absl::Time over = EventLoop::Now() + limit;
  Running running(*this, limit);
  // Makes a member that has lost its leader end the watch.
  running.context()->AddMetadata("hasleader", "true");
  const auto stream = members_[member]->watch->Watch(running.context());
  etcdserverpb::WatchResponse response;
  bool answered = stream->Write(request);
  bool deleted = false;
  while (answered && !deleted) {
    answered = stream->Read(&response) && !response.canceled();
    deleted = answered && !response.events().empty();
  }
  running.context()->TryCancel();
  const grpc::Status status = stream->Finish();
  if (deleted || status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return true;
  // A member that reaches the limit before this side ends the watch with another status.
  if (EventLoop::Now() >= over) return true;
  Leave(member);
  return false;
}

absl::StatusOr<int64_t> EtcdClient::DatabaseBytes(Patience patience) {
  etcdserverpb::StatusResponse response;
  PACELINE_RETURN_IF_ERROR(Try(patience, [&](Member& member, grpc::ClientContext* context) {
    return member.maintenance->Status(context, etcdserverpb::StatusRequest(), &response);
  }));
  return response.dbsize();
}

}  // namespace paceline
