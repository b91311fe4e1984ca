#include "worker/trainer/testing/fake_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/core/ladder.h"
#include "common/job_spec/training_plan.h"
#include "common/log.h"
#include "worker/link/frame.h"
#include "worker/ring/step_ring.h"

namespace paceline {
namespace {

constexpr char kJob[] = "job-0123456789ab";
constexpr uint32_t kRingRecords = 4096;

// A short path: that of a socket must not be longer than 107 bytes.
std::string SocketPath() {
  char directory[] = "/tmp/paceline.XXXXXX";
  PACELINE_CHECK(mkdtemp(directory) != nullptr);
  return absl::StrCat(directory, "/daemon.sock");
}

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

struct FakeDaemon::Connection {
  int fd = -1;
  FrameDecoder decoder;
  int rank = -1;  // Until the first status.

  ~Connection() { close(fd); }
};

FakeDaemon::FakeDaemon(Options options) : options_(std::move(options)), socket_(SocketPath()) {
  ComeBack();
}

FakeDaemon::~FakeDaemon() {
  for (Trainer& trainer : trainers_) {
    if (!trainer.ended) {
      kill(trainer.pid, SIGKILL);
      waitpid(trainer.pid, nullptr, 0);
    }
    close(trainer.pidfd);
  }
  GoAway();
  std::filesystem::remove_all(std::filesystem::path(socket_).parent_path());
}

void FakeDaemon::Launch(const v1::JobSpec& spec, int64_t generation,
                        const std::string& restore_from) {
  connections_.clear();
  for (const Trainer& trainer : trainers_) {
    PACELINE_CHECK(trainer.ended);
    close(trainer.pidfd);
  }
  spec_ = spec;
  generation_ = generation;
  restore_from_ = restore_from;
  commit_steps_.clear();
  plan_ = MakePlan(1, spec.strategy());
  trainers_.clear();
  trainers_.resize(static_cast<size_t>(spec.ranks()));
  for (int rank = 0; rank < spec.ranks(); ++rank) Start(rank);
}

std::string FakeDaemon::JobId() { return kJob; }

void FakeDaemon::SetPlan(const v1::TrainingPlan& plan) {
  plan_ = plan;
  SendCommands();
}

v1::TrainingPlan FakeDaemon::MakePlan(int64_t epoch, const v1::Strategy& strategy) const {
  return MakeTrainingPlan(epoch, strategy,
                          std::vector<RankHome>(static_cast<size_t>(spec_.ranks())));
}

void FakeDaemon::SetProfile(const std::vector<int>& ranks, const v1::ProfileRequest& request) {
  for (const int rank : ranks) trainers_.at(static_cast<size_t>(rank)).profile = request;
  SendCommands();
}

void FakeDaemon::SetSaveOrder(const v1::SaveOrder& order) {
  for (Trainer& trainer : trainers_) trainer.save = order;
  SendCommands();
}

void FakeDaemon::SetSaveOrder(const std::vector<int>& ranks, const v1::SaveOrder& order) {
  for (const int rank : ranks) trainers_.at(static_cast<size_t>(rank)).save = order;
  SendCommands();
}

void FakeDaemon::SetCommitSteps(const std::vector<int64_t>& steps) {
  commit_steps_ = steps;
  SendCommands();
}

void FakeDaemon::Start(int rank) {
  std::filesystem::create_directories(TrainerDirectory(rank));
  PACELINE_CHECK(CreateStepRing(RingPath(rank), kRingRecords).ok());
  std::vector<std::string> args = {options_.trainer, "--dir",  TrainerDirectory(rank), "--socket",
                                   socket_,          "--ring", RingPath(rank)};
  args.insert(args.end(), options_.extra_args.begin(), options_.extra_args.end());
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (std::string& arg : args) argv.push_back(&arg[0]);
  argv.push_back(nullptr);

  Trainer& trainer = trainers_[static_cast<size_t>(rank)];
  trainer.pid = fork();
  PACELINE_CHECK(trainer.pid >= 0);
  if (trainer.pid == 0) {
    execv(argv[0], argv.data());
    _exit(127);
  }
  trainer.pidfd = static_cast<int>(syscall(SYS_pidfd_open, trainer.pid, 0));
  PACELINE_CHECK(trainer.pidfd >= 0);
}

bool FakeDaemon::Serve(const std::function<bool()>& done) {
  const absl::Time deadline = absl::Now() + options_.patience;
  while (!done() && !std::all_of(trainers_.begin(), trainers_.end(),
                                 [](const Trainer& trainer) { return trainer.ended; })) {
    std::vector<pollfd> fds = {{listen_fd_, POLLIN, 0}};
    fds.reserve(1 + trainers_.size() + connections_.size());
    for (const Trainer& trainer : trainers_) {
      fds.push_back({trainer.ended ? -1 : trainer.pidfd, POLLIN, 0});
    }
    for (const auto& connection : connections_) fds.push_back({connection->fd, POLLIN, 0});
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    poll(fds.data(), fds.size(), static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);

    std::vector<std::unique_ptr<Connection>> open;
    for (size_t i = 0; i < connections_.size(); ++i) {
      const bool ready = fds[1 + trainers_.size() + i].revents != 0;
      if (!ready || Receive(*connections_[i])) open.push_back(std::move(connections_[i]));
    }
    connections_ = std::move(open);
    if (fds[0].revents != 0) Accept();
    SendCommands();
    for (size_t i = 0; i < trainers_.size(); ++i) {
      if (fds[1 + i].revents != 0) Reap(trainers_[i]);
    }
  }
  return true;
}

void FakeDaemon::Accept() {
  auto connection = std::make_unique<Connection>();
  connection->fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
  PACELINE_CHECK(connection->fd >= 0);
  connections_.push_back(std::move(connection));
}

bool FakeDaemon::Receive(Connection& connection) {
  char buffer[4096];
  const ssize_t size = recv(connection.fd, buffer, sizeof(buffer), 0);
  if (size <= 0) return false;
  connection.decoder.Append({buffer, static_cast<size_t>(size)});
  while (true) {
    absl::StatusOr<std::optional<std::string>> payload = connection.decoder.Next();
    PACELINE_CHECK(payload.ok());
    if (!payload->has_value()) return true;
    v1::TrainerStatus status;
    PACELINE_CHECK(status.ParseFromString(**payload));
    if (status.id().generation() != generation_) return false;
    Trainer& trainer = trainers_.at(static_cast<size_t>(status.id().rank()));
    // A new connection gets the whole command, whatever the one before was sent.
    if (connection.rank < 0) trainer.sent.clear();
    connection.rank = status.id().rank();
    trainer.status = std::move(status);
    ++trainer.statuses;
  }
}

bool FakeDaemon::IsDurable(int64_t step) const {
  return std::all_of(trainers_.begin(), trainers_.end(), [&](const Trainer& trainer) {
    return std::any_of(trainer.status.saves().begin(), trainer.status.saves().end(),
                       [&](const v1::SaveStatus& save) {
                         return save.step() == step && save.state() == v1::SAVE_DURABLE;
                       });
  });
}

v1::CheckpointPlan FakeDaemon::Checkpoints(int rank) const {
  v1::CheckpointPlan plan;
  const Trainer& trainer = trainers_[static_cast<size_t>(rank)];
  if (trainer.save.has_value()) *plan.mutable_save() = *trainer.save;
  if (rank != 0) return plan;
  std::set<int64_t> steps(commit_steps_.begin(), commit_steps_.end());
  if (options_.commit_saves) {
    for (const v1::SaveStatus& save : trainer.status.saves()) {
      if (IsDurable(save.step())) steps.insert(save.step());
    }
  }
  plan.mutable_commit_steps()->Assign(steps.begin(), steps.end());
  return plan;
}

v1::TrainerCommand FakeDaemon::Command(int rank) const {
  v1::TrainerCommand command;
  v1::TrainerConfig* config = command.mutable_config();
  config->mutable_id()->set_job_id(kJob);
  config->mutable_id()->set_generation(generation_);
  config->mutable_id()->set_rank(rank);
  *config->mutable_spec() = spec_;
  config->set_world_size(spec_.ranks());
  config->set_place(rank);
  config->set_threads(options_.threads);
  config->set_interface("lo");
  config->set_restore_from(restore_from_);
  const int port = trainers_[0].status.store_port();
  if (port != 0) command.set_store_address(absl::StrCat("127.0.0.1:", port));
  *command.mutable_plan() = plan_;
  const std::optional<v1::ProfileRequest>& profile = trainers_[static_cast<size_t>(rank)].profile;
  if (profile.has_value()) *command.mutable_profile() = *profile;
  if (!spec_.checkpoint().directory().empty()) *command.mutable_checkpoints() = Checkpoints(rank);
  command.set_stopping(trainers_[static_cast<size_t>(rank)].stopping);
  return command;
}

void FakeDaemon::SendCommands() {
  for (const auto& connection : connections_) {
    if (connection->rank < 0) continue;
    Trainer& trainer = trainers_[static_cast<size_t>(connection->rank)];
    const std::string bytes = Command(connection->rank).SerializeAsString();
    if (bytes == trainer.sent) continue;
    trainer.sent = bytes;
    const std::string frame = EncodeFrame(bytes);
    // A trainer that has just died is noticed by its process.
    if (send(connection->fd, frame.data(), frame.size(), MSG_NOSIGNAL) < 0) continue;
  }
}

void FakeDaemon::Reap(Trainer& trainer) {
  PACELINE_CHECK(waitpid(trainer.pid, &trainer.wait_status, 0) == trainer.pid);
  trainer.ended = true;
}

void FakeDaemon::GoAway() {
  connections_.clear();
  if (listen_fd_ >= 0) close(listen_fd_);
  listen_fd_ = -1;
  unlink(socket_.c_str());
}

void FakeDaemon::ComeBack() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  listen_fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  PACELINE_CHECK(bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  PACELINE_CHECK(listen(listen_fd_, 64) == 0);
}

void FakeDaemon::Signal(int rank, int signal) {
  kill(trainers_[static_cast<size_t>(rank)].pid, signal);
}

void FakeDaemon::Stop(int rank) {
  SayStopping(rank);
  Signal(rank, SIGTERM);
}

void FakeDaemon::SayStopping(int rank) {
  trainers_[static_cast<size_t>(rank)].stopping = true;
  SendCommands();
}

int FakeDaemon::exit_code(int rank) const {
  const int status = trainers_[static_cast<size_t>(rank)].wait_status;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int FakeDaemon::exit_signal(int rank) const {
  const int status = trainers_[static_cast<size_t>(rank)].wait_status;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

bool FakeDaemon::HasLastWords(int rank) const {
  return std::filesystem::exists(TrainerDirectory(rank) + "/status");
}

v1::TrainerStatus FakeDaemon::LastWords(int rank) const {
  v1::TrainerStatus status;
  PACELINE_CHECK(status.ParseFromString(ReadFile(TrainerDirectory(rank) + "/status")));
  return status;
}

std::string FakeDaemon::Log(int rank) const {
  std::vector<std::string> segments;
  const std::string directory = TrainerDirectory(rank) + "/log";
  if (!std::filesystem::exists(directory)) return "";
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    segments.push_back(entry.path());
  }
  std::sort(segments.begin(), segments.end());
  std::string log;
  for (const std::string& segment : segments) log += ReadFile(segment);
  return log;
}

std::string FakeDaemon::TrainerDirectory(int rank) const {
  return absl::StrCat(options_.directory, "/", kJob, ".", generation_, ".", rank);
}

std::string FakeDaemon::RingPath(int rank) const { return TrainerDirectory(rank) + ".ring"; }

}  // namespace paceline
