#include "bench/load/simulated_node.h"

#include <grpcpp/grpcpp.h>

#include <memory>

#include "common/event_loop.h"

namespace paceline {
namespace {

// worker/daemon/session/session.h
constexpr absl::Duration kGreetingLimit = absl::Seconds(10);
const Backoff::Options kBackoff = {absl::Milliseconds(100), absl::Seconds(4)};

// Like worker/daemon/session/session.cc: a separate channel per attempt.
std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace

// One call. It lives until gRPC reports the end of the call, which waits for Release.
class SimulatedNode::Stream
    : public grpc::ClientBidiReactor<v1::WorkerMessage, v1::ControllerMessage> {
 public:
  Stream(SimulatedNode* node, const std::shared_ptr<grpc::Channel>& channel)
      : node_(node), stub_(v1::WorkerService::NewStub(channel)) {
    stub_->async()->Session(&context_, this);
    // Writes begin outside gRPC's callbacks: the call must not end meanwhile.
    AddHold();
    StartRead(&incoming_);
  }

  void Begin(v1::WorkerMessage hello) {
    hello_ = std::move(hello);
    StartWrite(&hello_);
    StartCall();
  }
  void Write(const v1::WorkerMessage* message) { StartWrite(message); }
  void Cancel() { context_.TryCancel(); }
  void Release() { RemoveHold(); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return node_->OnReadFailed(this);
    node_->OnMessage(incoming_);
    StartRead(&incoming_);
  }
  void OnWriteDone(bool) override { node_->OnWritten(this); }
  void OnDone(const grpc::Status&) override { node_->OnDone(this); }

  SimulatedNode* const node_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  v1::WorkerMessage hello_;
  v1::ControllerMessage incoming_;
};

SimulatedNode::SimulatedNode(Options options, Totals* totals, Storm* storm)
    : options_(std::move(options)),
      totals_(totals),
      storm_(storm),
      trainers_(options_.steps_per_second),
      backoff_(kBackoff, options_.seed),
      due_(absl::InfinitePast()),
      random_(options_.seed) {}

void SimulatedNode::Tick(absl::Time now) {
  Send send;
  bool dial = false;
  Stream* silent = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    if (makes_steps_ && trainers_.Advance(now)) report_due_ = steps_due_ = true;
    const int64_t dropped = trainers_.TakeDropped();
    records_lost_ += dropped;
    totals_->records_dropped += dropped;
    const int running = trainers_.running();
    totals_->running += running - std::exchange(running_, running);
    if (state_ == State::kConnected) {
      if (now >= next_report_) {
        report_due_ = steps_due_ = true;
        next_report_ = NextReport(now);
      }
      send = Next(now);
    } else if (now >= due_) {
      dial = state_ == State::kAway && stream_ == nullptr;
      if (state_ == State::kGreeting) silent = stream_;
    }
    // Before the mutex is free: the stream may be gone soon after.
    if (silent != nullptr && !ended_) silent->Cancel();
  }
  Do(send);
  if (dial) Dial(now);
}

void SimulatedNode::Dial(absl::Time now) {
  storm_->Dialled(now);
  v1::WorkerMessage message;
  std::shared_ptr<grpc::Channel> channel = MakeChannel(options_.controller, options_.credentials);
  Stream* const stream = new Stream(this, channel);
  {
    absl::MutexLock lock(&mutex_);
    channel_.swap(channel);
    state_ = State::kGreeting;
    due_ = now + kGreetingLimit;
    stream_ = stream;
    writing_ = true;
    ended_ = false;
    plan_revision_ = report_number_ = 0;
    unanswered_.clear();
    v1::Hello& hello = *message.mutable_hello();
    hello.set_node(options_.name);
    hello.set_node_uid("uid-" + options_.name);
    hello.set_daemon_uid("daemon-" + options_.name);
    hello.set_dropped_confirmed(sent_records_.dropped_confirmed());
    hello.set_cluster_id(cluster_);
    hello.mutable_hardware()->set_cpus(options_.ranks);
    hello.mutable_hardware()->set_memory_bytes(int64_t{64} << 30);
    hello.set_address("127.0.0.1");
    hello.set_slots(options_.ranks);
    hello.set_version("load");
    MakeReport(now, hello.mutable_report());
  }
  stream->Begin(std::move(message));
}

void SimulatedNode::Do(const Send& send) {
  if (send.stream != nullptr) send.stream->Write(send.message);
}

// The node's own moment of the next interval, even after a late report: a turn that is late makes a
// dozen nodes late. If each next report came one interval after the last one, nodes would bunch
// like buses, which nodes with separate clocks do not do.
absl::Time SimulatedNode::NextReport(absl::Time now) const {
  const absl::Time next = next_report_ + interval_;
  return next > now ? next : now + interval_;
}

SimulatedNode::Send SimulatedNode::Next(absl::Time now) {
  if (writing_ || ended_ || state_ != State::kConnected) return {};
  const v1::WorkerMessage* message = nullptr;
  if (std::exchange(report_due_, false)) {
    MakeReport(now, report_.mutable_report());
    message = &report_;
    ++totals_->reports;
  } else if (std::exchange(steps_due_, false)) {
    message = NextSteps();
  }
  if (message == nullptr) return {};
  writing_ = true;
  return {stream_, message};
}

const v1::WorkerMessage* SimulatedNode::NextSteps() {
  v1::NodeSteps& steps = *steps_.mutable_steps();
  const int64_t records = trainers_.TakeSteps(&steps);
  if (records == 0 && records_lost_ == sent_records_.dropped_reported()) return nullptr;
  steps.set_dropped(records_lost_);
  sent_records_.Sent(records, records_lost_);
  totals_->records_sent += records;
  return &steps_;
}

void SimulatedNode::MakeReport(absl::Time now, v1::NodeReport* report) {
  trainers_.Report(now, report);
  report->set_number(++report_number_);
  report->set_plan_revision(plan_revision_);
  // Not `now`, which is the same for all nodes of a turn.
  unanswered_.emplace_back(report_number_, EventLoop::Now());
  sent_records_.ReportSent(report_number_);
}

void SimulatedNode::OnMessage(const v1::ControllerMessage& message) {
  const absl::Time now = EventLoop::Now();
  Send send;
  {
    absl::MutexLock lock(&mutex_);
    if (message.has_lease()) {
      OnLease(message.lease().report_number(), now);
    } else if (message.has_plan()) {
      plan_revision_ = message.plan().revision();
      trainers_.SetPlan(message.plan(), now);
      report_due_ = true;
    } else if (message.has_welcome()) {
      cluster_ = message.welcome().cluster_id();
      interval_ = absl::Seconds(message.welcome().report_interval_s());
      state_ = State::kConnected;
      backoff_.Reset();
      ++totals_->connected;
      storm_->Back(now);
      report_due_ = true;
      next_report_ = now + interval_ * std::uniform_real_distribution<double>(0.0, 1.0)(random_);
    }
    send = Next(now);
  }
  Do(send);
}

void SimulatedNode::OnLease(int64_t number, absl::Time now) {
  totals_->records_confirmed += sent_records_.Answered(number);
  for (; !unanswered_.empty() && unanswered_.front().first <= number; unanswered_.pop_front()) {
    const auto& [report, sent] = unanswered_.front();
    // Without the Hello, whose answer also waits for the connection.
    if (report == number && number > 1) totals_->heartbeats.Add(now - sent);
  }
}

void SimulatedNode::OnReadFailed(Stream* stream) {
  bool release = false;
  {
    absl::MutexLock lock(&mutex_);
    release = !ended_ && !writing_;
    ended_ = true;
  }
  if (release) stream->Release();
}

void SimulatedNode::OnWritten(Stream* stream) {
  Send send;
  bool release = false;
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    release = ended_;
    send = Next(EventLoop::Now());
  }
  if (release) return stream->Release();
  Do(send);
}

void SimulatedNode::OnDone(Stream* stream) {
  const absl::Time now = EventLoop::Now();
  absl::MutexLock lock(&mutex_);
  if (state_ == State::kConnected) {
    --totals_->connected;
    ++totals_->losses;
    storm_->Lost(now);
  }
  const int64_t lost = sent_records_.Lost();
  records_lost_ += lost;
  totals_->records_cut += lost;
  unanswered_.clear();
  state_ = State::kAway;
  stream_ = nullptr;
  delete stream;
  due_ = now + backoff_.Next();
}

void SimulatedNode::Cut() {
  absl::MutexLock lock(&mutex_);
  if (stream_ != nullptr && !ended_) stream_->Cancel();
}

void SimulatedNode::SetSteps(bool on) {
  absl::MutexLock lock(&mutex_);
  makes_steps_ = on;
}

void SimulatedNode::Stop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  if (stream_ != nullptr && !ended_) stream_->Cancel();
  const auto gone = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stream_ == nullptr; };
  mutex_.Await(absl::Condition(&gone));
}

}  // namespace paceline
