#include "bench/load/watchers.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <utility>

#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

constexpr char kWatchJobs[] = "/paceline.v1.JobService/Watch";
constexpr char kWatchNodes[] = "/paceline.v1.NodeService/Watch";
constexpr int kMaxMessageBytes = 64 << 20;

std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

std::string RequestOf(int number, const std::vector<std::string>& jobs, std::string* method) {
  const int kind = number % 10;
  *method = kind >= 4 && kind < 8 ? kWatchNodes : kWatchJobs;
  if (kind >= 4 && kind < 8) return v1::WatchNodesRequest().SerializeAsString();
  v1::WatchJobsRequest request;
  if (kind < 4 && !jobs.empty())
    request.set_job_id(jobs[static_cast<size_t>(number) % jobs.size()]);
  return request.SerializeAsString();
}

}  // namespace

class Watchers::Stream : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Stream(Watchers* watchers, size_t number, const Watch& watch)
      : watchers_(watchers), number_(number), stub_(watch.channel) {
    const grpc::Slice slice(watch.request);
    request_ = grpc::ByteBuffer(&slice, 1);
    stub_.PrepareBidiStreamingCall(&context_, watch.method, grpc::StubOptions(), this);
    StartWriteLast(&request_, grpc::WriteOptions());
    StartRead(&event_);
  }

  void Begin() { StartCall(); }
  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    ++watchers_->events_;
    watchers_->bytes_ += static_cast<int64_t>(event_.Length());
    StartRead(&event_);
  }
  void OnDone(const grpc::Status&) override { watchers_->OnDone(number_); }

  Watchers* const watchers_;
  const size_t number_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer event_;
};

void Watchers::Start(int count, const std::vector<std::string>& jobs) {
  {
    absl::MutexLock lock(&mutex_);
    for (int number = 0; number < count; ++number) {
      Watch& watch = watches_.emplace_back();
      watch.request = RequestOf(number, jobs, &watch.method);
    }
  }
  Renew();
}

void Watchers::Renew() {
  std::vector<Stream*> begun;
  std::vector<std::shared_ptr<grpc::Channel>> former;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    for (size_t number = 0; number < watches_.size(); ++number) {
      Watch& watch = watches_[number];
      if (watch.stream != nullptr) continue;
      former.push_back(std::exchange(watch.channel, MakeChannel(controller_, credentials_)));
      watch.stream = new Stream(this, number, watch);
      ++open_;
      begun.push_back(watch.stream);
    }
  }
  for (Stream* stream : begun) stream->Begin();
}

void Watchers::OnDone(size_t number) {
  absl::MutexLock lock(&mutex_);
  delete std::exchange(watches_[number].stream, nullptr);
  --open_;
  if (!stopping_) ++ended_;
}

void Watchers::Stop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  // Streams that have ended but not reported it yet still exist: OnDone waits for the mutex.
  for (const Watch& watch : watches_) {
    if (watch.stream != nullptr) watch.stream->Cancel();
  }
  const auto gone = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return open_ == 0; };
  mutex_.Await(absl::Condition(&gone));
}

}  // namespace paceline
