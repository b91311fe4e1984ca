#include "controller/api/services/worker_sessions.h"

#include <google/protobuf/arena.h>

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/identity/principal.h"
#include "common/log.h"
#include "controller/api/admission/worker_identity.h"
#include "controller/api/admission/worker_messages.h"
#include "controller/api/services/session_outbox.h"
#include "controller/core/requests/read_throttle.h"
#include "controller/metrics/metrics.h"
#include "controller/wire/convert.h"
#include "controller/wire/encoded_message.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

constexpr double kReportIntervalSeconds = 1.0;
// Log requests to one node, of all readers and of one: twice what `paceline job logs` follows.
constexpr size_t kMaxLogRequests = 512;
constexpr int kMaxLogRequestsOfOne = 128;
// How long a closed session waits for its worker to take the message being written. A worker that
// takes nothing must not keep its node's name.
constexpr absl::Duration kFarewell = absl::Seconds(2);

// Memory that a message may take: a hundred times the steps that a worker sends at once
// (NodeTrainers::kMaxRecords), or thousands of trainers.
constexpr size_t kMaxParsed = size_t{32} << 20;
// With one node's certificate: its worker needs one, and one more while it reconnects.
constexpr int kMaxSessions = 8;
// In messages (CostOf). A worker sends some per second, plus the parts of logs that are asked for.
constexpr ReadThrottle::Options kThrottle = {1000, 10'000};

// A message is read into an arena: a node's steps make some sixty parts, each of which would be
// allocated by gRPC's thread and freed by the loop's. A block of an arena belongs to the thread
// that it was made for. The first block lies in the stream and belongs to the loop; it holds the
// message itself and the empty texts that LimitMessage touches. gRPC's thread allocates another,
// which the steps of eight ranks fit in.
constexpr size_t kFirstBlock = 4 << 10;
constexpr size_t kReadBlock = 16 << 10;
constexpr size_t kMaxReadBlock = 64 << 10;

google::protobuf::ArenaOptions BlocksOf(std::array<char, kFirstBlock>& first) {
  google::protobuf::ArenaOptions options;
  options.initial_block = first.data();
  options.initial_block_size = first.size();
  options.start_block_size = kReadBlock;
  options.max_block_size = kMaxReadBlock;
  return options;
}

}  // namespace

class WorkerSessions::Stream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Stream(WorkerSessions* sessions, const grpc::CallbackServerContext* context)
      : sessions_(sessions), context_(context), peer_(context->peer()) {
    sessions_->loop_->Post([this] {
      sessions_->streams_.insert(this);
      if (!CountSession()) return;
      timer_ = sessions_->loop_->After(sessions_->limits_->options().hello_patience, [this] {
        timer_ = 0;
        sessions_->metrics_->limits().Refused(Limit::kSessionHello);
        Close(MakeError(grpc::StatusCode::DEADLINE_EXCEEDED, "NO_HELLO",
                        "the session's hello did not come in time"));
      });
      Read();
    });
  }

  void Close(grpc::Status status) {
    if (closing_) return;
    closing_ = true;
    status_ = std::move(status);
    ForgetTimer();
    if (read_timer_ != 0) sessions_->loop_->Cancel(std::exchange(read_timer_, 0));
    if (!writing_) return Finish(status_);
    // The call exists until it is finished.
    timer_ = sessions_->loop_->After(kFarewell, [this] {
      timer_ = 0;
      context_->TryCancel();
    });
  }

  void SendPlan(v1::NodePlan plan) {
    if (outbox_.SetPlan(std::move(plan))) Write();
  }

  grpc::Status RequestLog(v1::LogRequest request, const std::string& reader, LogCallback answer) {
    const auto of_reader = log_readers_.find(reader);
    const bool has_share =
        of_reader != log_readers_.end() && of_reader->second >= kMaxLogRequestsOfOne;
    if (has_share || logs_.size() >= kMaxLogRequests) {
      sessions_->metrics_->limits().Refused(Limit::kLogReaders);
      return MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_LOG_READERS",
                       has_share
                           ? absl::StrCat(reader, " reads ", kMaxLogRequestsOfOne, " logs of node ",
                                          node_.value(), " already: end some of them first")
                           : absl::StrCat("node ", node_.value(), " has ", kMaxLogRequests,
                                          " log readers already: try again later"));
    }
    ++log_readers_[reader];
    logs_[request.id()] = {reader, std::move(answer)};
    v1::ControllerMessage message;
    *message.mutable_log_request() = std::move(request);
    Queue(std::move(message));
    return grpc::Status::OK;
  }

  void CancelLog(int64_t id) {
    if (!TakeLog(id).has_value()) return;
    v1::ControllerMessage message;
    message.mutable_log_cancel()->set_id(id);
    Queue(std::move(message));
  }

 private:
  // gRPC's callbacks:
  void OnReadDone(bool ok) override {
    // On gRPC's thread, while nobody else looks at what is read.
    grpc::Status parsed = grpc::Status::OK;
    if (ok) {
      parsed = DecodeWeighed(encoded_, kMaxParsed, incoming_);
      encoded_.Clear();
    }
    sessions_->loop_->Post([this, ok, parsed = std::move(parsed)] {
      if (!ok) return Close(grpc::Status::OK);
      if (closing_) return;
      if (!parsed.ok()) {
        sessions_->metrics_->limits().Refused(Limit::kWorkerMessage);
        return Refuse(parsed);
      }
      Handle();
      if (!closing_) ReadInTime();
    });
  }
  void OnWriteDone(bool ok) override {
    sessions_->loop_->Post([this, ok] {
      writing_ = false;
      outgoing_.Clear();  // A plan may take megabytes.
      if (closing_) {
        ForgetTimer();
        return Finish(status_);
      }
      if (!ok) return Close(grpc::Status::CANCELLED);
      Write();
    });
  }
  void OnCancel() override {
    sessions_->loop_->Post([this] { Close(grpc::Status::CANCELLED); });
  }
  void OnDone() override {
    sessions_->loop_->Post([this] {
      sessions_->streams_.erase(this);
      ForgetTimer();
      if (!certificate_.empty()) {
        const auto counted = sessions_->by_certificate_.find(certificate_);
        if (--counted->second == 0) sessions_->by_certificate_.erase(counted);
      }
      const auto current = sessions_->by_node_.find(node_);
      if (current != sessions_->by_node_.end() && current->second == this) {
        sessions_->by_node_.erase(current);
        sessions_->metrics_->WorkerConnected(false);
        sessions_->control_->Apply(NodeDisconnected{node_});
      }
      for (auto& [id, log] : logs_) {
        log.answer(MakeError(grpc::StatusCode::UNAVAILABLE, "NODE_UNREACHABLE",
                             absl::StrCat("node ", node_.value(), " is not connected")),
                   {});
      }
      delete this;
    });
  }

  // Takes out a log request that is no longer waited for; nothing: there is none.
  std::optional<LogCallback> TakeLog(int64_t id) {
    const auto found = logs_.find(id);
    if (found == logs_.end()) return std::nullopt;
    const auto reader = log_readers_.find(found->second.reader);
    if (--reader->second == 0) log_readers_.erase(reader);
    LogCallback answer = std::move(found->second.answer);
    logs_.erase(found);
    return answer;
  }

  // Reads the next message, reusing the memory of the last.
  void Read() {
    arena_.Reset();
    incoming_ = google::protobuf::Arena::CreateMessage<v1::WorkerMessage>(&arena_);
    StartRead(&encoded_);
  }

  // Reads the next message, after a delay if there were too many before.
  void ReadInTime() {
    const absl::Duration wait = throttle_.Spend(CostOf(*incoming_), EventLoop::Now());
    if (wait <= absl::ZeroDuration()) return Read();
    sessions_->metrics_->limits().Refused(Limit::kWorkerRate);
    read_timer_ = sessions_->loop_->After(wait, [this] {
      read_timer_ = 0;
      Read();
    });
  }

  // Counts the session for its certificate. Returns false, and closes it, if there are too many.
  bool CountSession() {
    const Principal caller = sessions_->find_caller_(*context_);
    if (caller.role != Role::kWorker) return true;  // Plain text, or it will fail at the hello.
    certificate_ = caller.name;
    if (++sessions_->by_certificate_[certificate_] <= kMaxSessions) return true;
    sessions_->metrics_->limits().Refused(Limit::kSessions);
    Close(MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_SESSIONS",
                    absl::StrCat("node \"", certificate_, "\" has ", kMaxSessions,
                                 " sessions already; those without a hello end in seconds")));
    return false;
  }

  void Handle() {
    LimitMessage(incoming_);
    if (node_.value().empty() && incoming_->kind_case() != v1::WorkerMessage::kHello) {
      return Close(MakeError(grpc::StatusCode::FAILED_PRECONDITION, "NO_HELLO",
                             "the first message of a session must be a hello"));
    }
    if (incoming_->has_steps()) return TakeSteps(incoming_->steps());
    if (!node_.value().empty()) {
      grpc::Status foreign = CheckMessage(sessions_->control_->cluster(), node_, *incoming_);
      if (!foreign.ok()) return Refuse(std::move(foreign));
    }
    switch (incoming_->kind_case()) {
      case v1::WorkerMessage::kHello:
        return Greet(incoming_->hello());
      case v1::WorkerMessage::kReport:
        sessions_->control_->Apply(Own(ReportedBy(node_, incoming_->report())));
        return Answer(incoming_->report().number());
      case v1::WorkerMessage::kLog: {
        const std::optional<LogCallback> answer = TakeLog(incoming_->log().id());
        if (answer.has_value()) (*answer)(grpc::Status::OK, incoming_->log());
        return;
      }
      case v1::WorkerMessage::kCodeRequest:
        code_wanted_ = incoming_->code_request();
        return Write();
      case v1::WorkerMessage::kSteps:
      case v1::WorkerMessage::KIND_NOT_SET:
        return;
    }
  }

  void TakeSteps(const v1::NodeSteps& steps) {
    if (StepsIn(steps) > kMaxStepsReported) {
      sessions_->metrics_->limits().Refused(Limit::kWorkerMessage);
      return Refuse(MakeError(grpc::StatusCode::INVALID_ARGUMENT, "TOO_MANY_STEPS",
                              absl::StrCat("a message has at most ", kMaxStepsReported, " steps")));
    }
    std::vector<TrainerSteps> own;
    grpc::Status foreign = CheckSteps(sessions_->control_->cluster(), node_, steps, &own);
    if (!foreign.ok()) return Refuse(std::move(foreign));
    sessions_->metrics_->AddDropped(sessions_->dropped_.Take(node_, steps.dropped()));
    for (const auto& [trainer, batch] : own) {
      sessions_->metrics_->AddSteps(trainer.job, *batch);
      sessions_->control_->TakeSteps(node_, trainer, StepsOf(*batch));
    }
  }

  // Called when what was waited for has come, or is no longer waited for.
  void ForgetTimer() {
    if (timer_ != 0) sessions_->loop_->Cancel(std::exchange(timer_, 0));
  }

  // A node's results, without those of tasks that it was not asked to do.
  template <typename Reported>
  Reported Own(Reported reported) const {
    DropForeignResults(sessions_->control_->cluster(), node_, &reported.task_results);
    return reported;
  }

  void Refuse(grpc::Status refusal) {
    PACELINE_LOG(WARNING) << "worker_refused peer=" << peer_ << " reason=\""
                          << refusal.error_message() << "\"";
    Close(std::move(refusal));
  }

  // Tells the worker that all it sent before the report has arrived, and renews its lease, if any.
  // Only the newest answer counts.
  void Answer(int64_t report) {
    outbox_.Answer(report);
    Write();
  }

  void Greet(const v1::Hello& hello) {
    grpc::Status refusal = Refusal(hello);
    if (!refusal.ok()) return Refuse(std::move(refusal));
    ForgetTimer();
    node_ = NodeName(hello.node());
    uid_ = hello.node_uid();
    Stream*& current = sessions_->by_node_[node_];
    if (current != nullptr) {
      current->Close(grpc::Status(grpc::StatusCode::ABORTED, "the worker has connected again"));
    } else {
      sessions_->metrics_->WorkerConnected(true);
    }
    current = this;
    sessions_->dropped_.Begin(node_, hello.daemon_uid(), hello.dropped_confirmed());
    PACELINE_LOG(INFO) << "worker_connected node=" << node_.value() << " peer=" << peer_
                       << " slots=" << hello.slots()
                       << " trainers=" << hello.report().trainers_size();
    const absl::Duration lease = sessions_->control_->cluster().options().node_lease;
    v1::ControllerMessage welcome;
    welcome.mutable_welcome()->set_cluster_id(sessions_->control_->cluster_id());
    welcome.mutable_welcome()->set_report_interval_s(kReportIntervalSeconds);
    welcome.mutable_welcome()->set_lease_s(absl::ToDoubleSeconds(lease));
    welcome.mutable_welcome()->set_term(sessions_->control_->term());
    Queue(std::move(welcome));
    sessions_->control_->Apply(Own(ConnectedBy(hello)));
    Answer(hello.report().number());
  }

  grpc::Status Refusal(const v1::Hello& hello) const {
    if (!node_.value().empty()) {
      return MakeError(grpc::StatusCode::FAILED_PRECONDITION, "SECOND_HELLO",
                       "a session has one hello");
    }
    const absl::Status possible = CheckHello(hello);
    if (!possible.ok()) {
      sessions_->metrics_->limits().Refused(Limit::kNodeSize);
      return MakeError(grpc::StatusCode::INVALID_ARGUMENT,
                       IsNodeName(hello.node()) ? "HELLO_INVALID" : "NODE_NAME_INVALID",
                       std::string(possible.message()));
    }
    // A session is admitted before its hello; its certificate may have been revoked since.
    const ControlLoop& control = *sessions_->control_;
    grpc::Status foreign = CheckSession(sessions_->find_caller_(*context_), control.cluster(),
                                        control.cluster_id(), hello);
    if (!foreign.ok()) return foreign;
    const auto current = sessions_->by_node_.find(NodeName(hello.node()));
    if (current != sessions_->by_node_.end() && current->second->uid_ != hello.node_uid()) {
      return MakeError(grpc::StatusCode::ALREADY_EXISTS, "NODE_NAME_TAKEN",
                       absl::StrCat("another worker is connected as \"", hello.node(), "\" from ",
                                    current->second->peer_, ": choose another --name"));
    }
    return grpc::Status::OK;
  }

  void Queue(v1::ControllerMessage message) {
    if (closing_) return;
    if (!outbox_.Queue(std::move(message))) {
      // The worker does not read. The session is not finished, so the call still exists.
      PACELINE_LOG(WARNING) << "worker_does_not_read node=" << node_.value();
      sessions_->metrics_->limits().Refused(Limit::kWorkerBacklog);
      return context_->TryCancel();
    }
    Write();
  }

  // Starts the next write unless one is under way.
  void Write() {
    if (writing_ || closing_ || !sessions_->may_act_()) return;
    std::optional<v1::ControllerMessage> message = outbox_.Next();
    if (!message.has_value() && code_wanted_.has_value()) {
      // Code comes last, one part at a time: large messages must not hold up a plan.
      *message.emplace().mutable_code() = sessions_->code_->Read(node_, *code_wanted_);
      code_wanted_.reset();
    }
    if (!message.has_value()) return;
    outgoing_ = Encode(*message);
    writing_ = true;
    StartWrite(&outgoing_);
  }

  WorkerSessions* const sessions_;
  const grpc::CallbackServerContext* const context_;
  const std::string peer_;

  // On the loop.
  EventLoop::TimerId timer_ = 0;  // First for the hello, later for the last write; 0: none.
  NodeName node_;                 // Empty before the hello.
  std::string uid_;
  bool writing_ = false;
  bool closing_ = false;
  grpc::Status status_;
  // Nothing refers to a message's memory once the message has been handled.
  alignas(8) std::array<char, kFirstBlock> first_block_;
  google::protobuf::Arena arena_{BlocksOf(first_block_)};
  v1::WorkerMessage* incoming_ = nullptr;  // Lies in the arena.
  grpc::ByteBuffer encoded_;               // The same message as received.
  ReadThrottle throttle_{kThrottle};
  EventLoop::TimerId read_timer_ = 0;  // Delays the next read; 0: no delay.
  std::string certificate_;            // Node of the caller's certificate; empty: none.
  grpc::ByteBuffer outgoing_;          // Empty unless it is being written.
  SessionOutbox outbox_;
  std::optional<v1::CodeRequest> code_wanted_;  // The newest request not answered yet.
  struct Log {
    std::string reader;
    LogCallback answer;
  };
  std::map<int64_t, Log> logs_;
  std::map<std::string, int> log_readers_;  // Log requests per reader; never 0.
};

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* WorkerSessions::Session(
    grpc::CallbackServerContext* context) {
  return new Stream(this, context);
}

void WorkerSessions::SendPlan(const NodeName& node, const v1::NodePlan& plan) {
  const auto stream = by_node_.find(node);
  if (stream != by_node_.end()) stream->second->SendPlan(plan);
}

grpc::Status WorkerSessions::RequestLog(const NodeName& node, const std::string& reader,
                                        v1::LogRequest request, LogCallback answer, int64_t* id) {
  const auto stream = by_node_.find(node);
  if (stream == by_node_.end()) {
    return MakeError(grpc::StatusCode::UNAVAILABLE, "NODE_UNREACHABLE",
                     absl::StrCat("node ", node.value(), " is not connected"));
  }
  *id = next_log_id_++;
  request.set_id(*id);
  return stream->second->RequestLog(std::move(request), reader, std::move(answer));
}

void WorkerSessions::CancelLog(const NodeName& node, int64_t id) {
  const auto stream = by_node_.find(node);
  if (stream != by_node_.end()) stream->second->CancelLog(id);
}

void WorkerSessions::CloseRevoked(const NodeName& node, const std::string& message) {
  const auto stream = by_node_.find(node);
  if (stream == by_node_.end()) return;
  PACELINE_LOG(WARNING) << "worker_revoked node=" << node.value();
  stream->second->Close(MakeError(grpc::StatusCode::UNAUTHENTICATED, "REVOKED", message));
}

void WorkerSessions::CloseAll() {
  for (Stream* stream : streams_) {
    stream->Close(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the controller is shutting down"));
  }
}

}  // namespace paceline
