// A trainer without torch: speaks the socket's protocol, writes the ring and the log, and ends as
// the spec's faults say. A step takes about a millisecond.
//
// A job named "stubborn" ignores SIGTERM. A job with a checkpoint directory answers each order with
// a save that is durable at once, and obeys SIGTERM only when the daemon confirms it. The last
// words of a job named "forgetful" lack the first save, call the others committed, and have no
// figures. A new membership takes effect at the next step; without a rank in it, the trainer waits.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "proto/trainer.pb.h"
#include "worker/link/frame.h"
#include "worker/ring/step_ring.h"
#include "worker/shim/small_file.h"

namespace paceline {
namespace {

volatile sig_atomic_t stop_requested = 0;

class FakeTrainer {
 public:
  explicit FakeTrainer(std::map<std::string, std::string> flags)
      : flags_(std::move(flags)), ring_(*StepRingWriter::Open(flags_.at("--ring"))) {
    const std::vector<std::string> parts =
        absl::StrSplit(flags_.at("--dir").substr(flags_.at("--dir").rfind('/') + 1), '.');
    status_.mutable_id()->set_job_id(parts.at(0));
    status_.mutable_id()->set_generation(std::stoll(parts.at(1)));
    status_.mutable_id()->set_rank(std::stoi(parts.at(2)));
    status_.set_pid(::getpid());
    status_.set_state(v1::TRAINER_STARTING);
  }

  int Run() {
    std::printf("hello from rank %d\n", status_.id().rank());
    while (!command_.has_config()) Exchange(10);
    status_.set_store_port(5000 + status_.id().rank());
    SetState(v1::TRAINER_READY);
    while (command_.store_address().empty() && stop_requested == 0) Exchange(10);
    std::printf("store at %s\n", command_.store_address().c_str());
    if (!command_.config().restore_from().empty()) {
      std::printf("restored from %s\n", command_.config().restore_from().c_str());
    }
    SetState(v1::TRAINER_RUNNING);
    const v1::JobSpec spec = command_.config().spec();
    if (spec.name() == "stubborn") ::signal(SIGTERM, SIG_IGN);
    for (int64_t step = 0; step < spec.steps(); ++step) {
      if (stop_requested != 0 && MayEnd()) return Leave(v1::TRAINER_RUNNING);
      ring_.Enter(Phase::kForward, static_cast<uint64_t>(step));
      for (const v1::Fault& fault : spec.chaos()) {
        if (fault.step() == step && fault.rank() == status_.id().rank()) Fail(fault.kind());
      }
      Exchange(1);
      StepRecord record = ring_.EndStep(static_cast<uint64_t>(step));
      record.samples = 32;
      record.loss = 0.5f;
      ring_.Append(record);
      TakeUpOrders(step + 1);
      TakeUpMembership(step + 1);
      Save(step + 1);
      std::printf("step %lld\n", static_cast<long long>(step));
      Rotate();
    }
    status_.mutable_evaluation()->set_accuracy(0.75);
    return Leave(v1::TRAINER_FINISHED);
  }

 private:
  // Takes up a new plan, and writes a profile if one was requested.
  void TakeUpOrders(int64_t step) {
    status_.mutable_figures()->set_step(step);
    status_.mutable_figures()->set_steps(1);
    const int64_t version = command_.plan().version();
    const int64_t profile = command_.profile().id();
    if (version == status_.plan().active_version() && profile == status_.profile().id()) return;
    status_.mutable_plan()->set_prepared_version(version);
    status_.mutable_plan()->set_active_version(version);
    status_.mutable_plan()->set_active_since_step(step);
    status_.mutable_profile()->set_id(profile);
    Send();
  }

  void TakeUpMembership(int64_t step) {
    const v1::Membership& wanted = command_.membership();
    v1::MembershipStatus& known = *status_.mutable_membership();
    const bool waiting = command_.has_membership() && wanted.rank() < 0;
    const bool changed = wanted.generation() != known.generation() || waiting != known.waiting();
    known.set_generation(wanted.generation());
    known.set_waiting(waiting);
    known.set_step(step);
    if (changed) Send();
  }

  // Whether the SIGTERM came from the daemon.
  bool MayEnd() {
    if (!Saves() || command_.stopping()) return true;
    if (!status_.asked_to_end()) {
      status_.set_asked_to_end(true);
      Send();
    }
    return false;
  }

  bool Saves() const { return !command_.config().spec().checkpoint().directory().empty(); }

  // Answers a save order, and commits saves that may be committed. Figures are sent at each step.
  void Save(int64_t step) {
    if (!Saves()) return;
    const int64_t order = command_.checkpoints().save().number();
    if (order > status_.checkpoints().saves()) {
      v1::SaveStatus& save = *status_.add_saves();
      save.set_step(step);
      save.set_order(order);
      save.set_state(v1::SAVE_DURABLE);
      status_.mutable_checkpoints()->set_saves(order);
    }
    for (const int64_t committed : command_.checkpoints().commit_steps()) {
      for (v1::SaveStatus& save : *status_.mutable_saves()) {
        if (save.step() == committed) save.set_state(v1::SAVE_COMMITTED);
      }
    }
    status_.mutable_checkpoints()->set_staging_s(static_cast<double>(step));
    Send();
  }

  void SetState(v1::TrainerState state) {
    status_.set_state(state);
    Send();
  }

  int Leave(v1::TrainerState state) {
    SetState(state);
    if (command_.config().spec().name() == "forgetful") {
      status_.mutable_saves()->DeleteSubrange(0, 1);
      for (v1::SaveStatus& save : *status_.mutable_saves()) save.set_state(v1::SAVE_COMMITTED);
      status_.clear_checkpoints();
    }
    const absl::Status kept =
        WriteSmallFile(flags_.at("--dir") + "/status", status_.SerializeAsString());
    return kept.ok() && !status_.has_error() ? 0 : 1;
  }

  void Fail(v1::FaultKind kind) {
    std::printf("about to fail \xff\n");
    switch (kind) {
      case v1::THROW:
        status_.mutable_error()->set_kind(v1::FAILURE_ERROR);
        status_.mutable_error()->set_message("thrown on purpose");
        ::_exit(Leave(v1::TRAINER_RUNNING));
      case v1::ABORT:
        ::abort();
      case v1::EXIT:
        ::_exit(42);
      case v1::SLEEP:
        while (true) ::pause();
      default:
        return;
    }
  }

  void Send() {
    if (socket_ < 0) return;
    const std::string frame = EncodeFrame(status_.SerializeAsString());
    if (::send(socket_, frame.data(), frame.size(), MSG_NOSIGNAL) < 0) HangUp();
  }

  void HangUp() {
    ::close(socket_);
    socket_ = -1;
    decoder_ = FrameDecoder();
  }

  void Dial() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, flags_.at("--socket").c_str(), sizeof(address.sun_path) - 1);
    socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      HangUp();
    } else {
      Send();
    }
  }

  // Talks to the daemon for `milliseconds`.
  void Exchange(int milliseconds) {
    if (socket_ < 0) Dial();
    pollfd waited{socket_, POLLIN, 0};
    if (::poll(&waited, 1, milliseconds) <= 0 || socket_ < 0) return;
    char buffer[4096];
    const ssize_t size = ::read(socket_, buffer, sizeof(buffer));
    if (size <= 0) return HangUp();
    decoder_.Append(absl::string_view(buffer, static_cast<size_t>(size)));
    while (true) {
      const auto payload = decoder_.Next();
      if (!payload.ok() || !payload->has_value()) return;
      command_.ParseFromString(**payload);
    }
  }

  // Begins a new log segment when the current one is full.
  void Rotate() {
    struct stat info;
    int64_t limit = 0;
    if (!absl::SimpleAtoi(flags_.at("--log-segment-bytes"), &limit) || ::fstat(1, &info) != 0 ||
        info.st_size < limit) {
      return;
    }
    const std::string log_dir = flags_.at("--dir") + "/log/";
    const int next = ::open((log_dir + "next").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int old = ::dup(1);
    ::dup2(next, 1);
    ::dup2(next, 2);
    ::close(next);
    ::fstat(old, &info);
    ::close(old);
    segment_base_ += info.st_size;
    ::rename((log_dir + "next").c_str(),
             (log_dir + absl::StrFormat("%020d.log", segment_base_)).c_str());
  }

  const std::map<std::string, std::string> flags_;
  StepRingWriter ring_;
  v1::TrainerStatus status_;
  v1::TrainerCommand command_;
  int socket_ = -1;
  FrameDecoder decoder_;
  int64_t segment_base_ = 0;
};

int Main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  struct sigaction action {};
  action.sa_handler = [](int) { stop_requested = 1; };
  ::sigaction(SIGTERM, &action, nullptr);
  std::map<std::string, std::string> flags;
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  return FakeTrainer(std::move(flags)).Run();
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
