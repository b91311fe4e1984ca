#include "worker/daemon/trainers/trainer_sockets.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "worker/link/frame.h"
#include "worker/shim/testing/other_users.h"

namespace paceline {
namespace {

const TrainerId kId{JobId("job-1"), Generation(1), Rank(3)};

v1::TrainerStatus Status(v1::TrainerState state, const TrainerId& id = kId) {
  v1::TrainerStatus status;
  *status.mutable_id() = IdToProto(id);
  status.set_state(state);
  return status;
}

v1::TrainerCommand Command(const std::string& store) {
  v1::TrainerCommand command;
  command.set_store_address(store);
  return command;
}

// The trainer's end; blocking, on its own thread beside the loop.
class Client {
 public:
  explicit Client(const std::string& path) : Client(path, ::socket(AF_UNIX, SOCK_STREAM, 0)) {}
  // Uses the socket `fd` and takes ownership of it.
  Client(const std::string& path, int fd) : fd_(fd) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Client() { ::close(fd_); }

  void Send(const std::string& bytes) {
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void Send(const v1::TrainerStatus& status) { Send(EncodeFrame(status.SerializeAsString())); }

  // The store in the next command; "closed" when the daemon has hung up.
  std::string Receive() {
    while (true) {
      const auto payload = decoder_.Next();
      if (payload.ok() && payload->has_value()) {
        v1::TrainerCommand command;
        EXPECT_TRUE(command.ParseFromString(**payload));
        return command.store_address();
      }
      char buffer[256];
      const ssize_t size = ::read(fd_, buffer, sizeof(buffer));
      if (size <= 0) return "closed";
      decoder_.Append(absl::string_view(buffer, static_cast<size_t>(size)));
    }
  }

 private:
  const int fd_;
  FrameDecoder decoder_;
};

class TrainerSocketsTest : public ::testing::Test {
 protected:
  TrainerSocketsTest() { EXPECT_TRUE(sockets_->Listen(path_).ok()); }

  // Runs `trainer` against the sockets until it returns.
  void Run(const std::function<void()>& trainer) {
    std::thread thread([&] {
      trainer();
      loop_.Stop();
    });
    loop_.Run();
    thread.join();
  }

  // Accepts the test's user, and takes each process for trainer kId unless vouched_ objects.
  TrainerSockets::Peers OwnPeers() {
    return {::geteuid(), ::getegid(),
            [this](const TrainerId& id, pid_t pid) {
              EXPECT_EQ(id.job, kId.job);
              asked_.push_back(pid);
              return vouched_;
            },
            [this](TrainerSockets::Refusal refusal) { refused_.push_back(refusal); }};
  }

  const std::string path_ = absl::StrCat("/tmp/trainer_sockets_test.", ::getpid());
  std::vector<v1::TrainerState> seen_;  // Used on the loop.
  absl::Status vouched_;
  std::vector<pid_t> asked_;
  std::vector<TrainerSockets::Refusal> refused_;
  EventLoop loop_;
  std::optional<FdPoller> poller_{loop_};
  std::optional<TrainerSockets> sockets_{
      std::in_place, loop_, *poller_, OwnPeers(),
      [this](const TrainerId& id, const v1::TrainerStatus& status) {
        EXPECT_EQ(id.job, kId.job);
        seen_.push_back(status.state());
      }};
};

TEST_F(TrainerSocketsTest, StatusIsAnsweredWithTheCommand) {
  sockets_->SetCommand(kId, Command("a:1"));
  Run([&] {
    Client client(path_);
    client.Send(Status(v1::TRAINER_STARTING));
    EXPECT_EQ(client.Receive(), "a:1");
  });
  EXPECT_EQ(seen_, std::vector<v1::TrainerState>{v1::TRAINER_STARTING});
}

TEST_F(TrainerSocketsTest, CommandIsSentAgainOnlyWhenItChanges) {
  sockets_->SetCommand(kId, Command("a:1"));
  Run([&] {
    Client client(path_);
    client.Send(Status(v1::TRAINER_STARTING));
    EXPECT_EQ(client.Receive(), "a:1");
    client.Send(Status(v1::TRAINER_READY));
    loop_.Post([&] {
      sockets_->SetCommand(kId, Command("a:1"));
      sockets_->SetCommand(kId, Command("b:2"));
    });
    EXPECT_EQ(client.Receive(), "b:2");
  });
}

TEST_F(TrainerSocketsTest, NewConnectionIsToldAgain) {
  sockets_->SetCommand(kId, Command("a:1"));
  Run([&] {
    for (int i = 0; i < 2; ++i) {
      Client client(path_);
      client.Send(Status(v1::TRAINER_RUNNING));
      EXPECT_EQ(client.Receive(), "a:1");
    }
  });
}

TEST_F(TrainerSocketsTest, CommandWaitsForTheTrainer) {
  Run([&] {
    Client client(path_);
    client.Send(Status(v1::TRAINER_STARTING));
    loop_.Post([&] { sockets_->SetCommand(kId, Command("late:1")); });
    EXPECT_EQ(client.Receive(), "late:1");
  });
}

TEST_F(TrainerSocketsTest, NonsenseClosesTheConnection) {
  Run([&] {
    Client too_long(path_);
    too_long.Send(std::string("\xff\xff\xff\xff", 4));
    EXPECT_EQ(too_long.Receive(), "closed");
    Client no_message(path_);
    no_message.Send(EncodeFrame("\xff\xff\xff"));
    EXPECT_EQ(no_message.Receive(), "closed");
  });
}

TEST_F(TrainerSocketsTest, StatusOfTooManyBytesClosesTheConnection) {
  sockets_->SetCommand(kId, Command("a:1"));
  Run([&] {
    v1::TrainerStatus status = Status(v1::TRAINER_RUNNING);
    Client client(path_);
    status.mutable_error()->set_message(std::string(TrainerSockets::kMaxStatusBytes / 2, 'x'));
    client.Send(status);
    EXPECT_EQ(client.Receive(), "a:1");
    status.mutable_error()->set_message(std::string(TrainerSockets::kMaxStatusBytes, 'x'));
    client.Send(status);
    EXPECT_EQ(client.Receive(), "closed");
  });
  EXPECT_EQ(seen_.size(), 1u);
}

TEST_F(TrainerSocketsTest, TrainerThatNeverReadsIsHungUpOn) {
  constexpr int kCommands = 8;
  constexpr size_t kBytes = 900 << 10;
  static_assert(kCommands * kBytes > TrainerSockets::kMaxUnsentBytes + kBytes);
  sockets_->SetCommand(kId, Command("a:1"));
  Run([&] {
    Client client(path_);
    client.Send(Status(v1::TRAINER_RUNNING));
    EXPECT_EQ(client.Receive(), "a:1");
    absl::Notification reported;
    loop_.Post([&] {
      for (int i = 0; i < kCommands; ++i) {
        sockets_->SetCommand(kId, Command(std::string(kBytes, static_cast<char>('a' + i))));
      }
      reported.Notify();
    });
    reported.WaitForNotification();
    int received = 0;
    while (received < kCommands && client.Receive() != "closed") ++received;
    EXPECT_LT(received, kCommands);
  });
}

TEST_F(TrainerSocketsTest, TrainerThatNeverStopsTalkingDoesNotKeepOthersOut) {
  sockets_->SetCommand(kId, Command("a:1"));
  v1::TrainerStatus status = Status(v1::TRAINER_RUNNING, {kId.job, kId.generation, Rank(4)});
  status.mutable_error()->set_message(std::string(20000, 'x'));
  const std::string frame = EncodeFrame(status.SerializeAsString());
  Run([&] {
    std::atomic<bool> stop{false};
    std::thread talker([&] {
      Client client(path_);
      while (!stop) client.Send(frame);
    });
    Client other(path_);
    other.Send(Status(v1::TRAINER_STARTING));
    EXPECT_EQ(other.Receive(), "a:1");
    stop = true;
    talker.join();
  });
}

TEST_F(TrainerSocketsTest, WhoSaysNothingGivesItsPlaceToWhoComes) {
  sockets_.reset();
  TrainerSockets::Limits limits;
  limits.connections = 2;
  limits.silence = absl::Seconds(2);  // Longer than two dials on a busy machine.
  TrainerSockets sockets(
      loop_, *poller_, OwnPeers(), [](const TrainerId&, const v1::TrainerStatus&) {}, limits);
  ASSERT_TRUE(sockets.Listen(path_).ok());
  sockets.SetCommand(kId, Command("a:1"));
  Run([&] {
    Client trainer(path_);
    trainer.Send(Status(v1::TRAINER_RUNNING));
    EXPECT_EQ(trainer.Receive(), "a:1");
    Client silent(path_);
    EXPECT_EQ(Client(path_).Receive(), "closed") << "the silent one may yet speak";
    absl::SleepFor(limits.silence);
    Client again(path_);
    EXPECT_EQ(silent.Receive(), "closed");
    again.Send(Status(v1::TRAINER_RUNNING));
    EXPECT_EQ(again.Receive(), "a:1");
    EXPECT_EQ(trainer.Receive(), "closed") << "it is the same trainer";
  });
}

// Takes all free descriptors until it is destroyed.
class NoDescriptors {
 public:
  NoDescriptors() {
    const int next = ::dup(0);
    EXPECT_GE(next, 0);
    ::close(next);
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none{static_cast<rlim_t>(next), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

TEST_F(TrainerSocketsTest, WhoDialsWithoutADescriptorLeftIsTakenLaterAndCostsNoTime) {
  sockets_->SetCommand(kId, Command("a:1"));
  Run([&] {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    std::optional<NoDescriptors> none(std::in_place);
    Client client(path_, fd);
    client.Send(Status(v1::TRAINER_STARTING));
    const std::clock_t before = std::clock();
    absl::SleepFor(absl::Milliseconds(500));
    EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 8) << "of the processor's time, for waiting";
    none.reset();
    EXPECT_EQ(client.Receive(), "a:1");
  });
}

TEST_F(TrainerSocketsTest, ForgottenTrainerIsHungUpOn) {
  sockets_->SetCommand(kId, Command("a:1"));
  Run([&] {
    Client client(path_);
    client.Send(Status(v1::TRAINER_RUNNING));
    EXPECT_EQ(client.Receive(), "a:1");
    loop_.Post([&] { sockets_->Forget(kId); });
    EXPECT_EQ(client.Receive(), "closed");
  });
}

TEST_F(TrainerSocketsTest, ReplacesTheSocketOfAnEarlierDaemonAndRemovesItsOwn) {
  TrainerSockets second(loop_, *poller_, OwnPeers(),
                        [](const TrainerId&, const v1::TrainerStatus&) {});
  EXPECT_TRUE(second.Listen(path_).ok());
  sockets_.reset();
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
}

TEST_F(TrainerSocketsTest, TooLongAPathIsExplained) {
  TrainerSockets other(loop_, *poller_, OwnPeers(),
                       [](const TrainerId&, const v1::TrainerStatus&) {});
  EXPECT_EQ(other.Listen("/tmp/" + std::string(200, 'x')).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TrainerSocketsTest, SocketIsItsUsersOnly) {
  struct stat info;
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  EXPECT_EQ(info.st_uid, ::geteuid());
}

TEST_F(TrainerSocketsTest, ProcessIsAskedForOnceAndByItsOwnId) {
  Run([&] {
    Client client(path_);
    client.Send(Status(v1::TRAINER_STARTING));
    client.Send(Status(v1::TRAINER_READY));
    loop_.Post([&] { sockets_->SetCommand(kId, Command("a:1")); });
    EXPECT_EQ(client.Receive(), "a:1");
  });
  EXPECT_EQ(asked_, std::vector<pid_t>{::getpid()});
  EXPECT_TRUE(refused_.empty());
}

TEST_F(TrainerSocketsTest, ProcessThatIsNotTheTrainerIsRefused) {
  vouched_ = absl::PermissionDeniedError("it is another process");
  sockets_->SetCommand(kId, Command("secret:1"));
  Run([&] {
    Client client(path_);
    client.Send(Status(v1::TRAINER_STARTING));
    EXPECT_EQ(client.Receive(), "closed");
  });
  EXPECT_TRUE(seen_.empty());
  EXPECT_EQ(refused_, std::vector{TrainerSockets::Refusal::kProcess});
}

TEST_F(TrainerSocketsTest, ProcessOfWhichNothingIsKnownYetMayDialAgain) {
  vouched_ = absl::UnavailableError("its shim is starting");
  Run([&] {
    Client early(path_);
    early.Send(Status(v1::TRAINER_STARTING));
    EXPECT_EQ(early.Receive(), "closed");
    loop_.Post([&] {
      vouched_ = absl::OkStatus();
      sockets_->SetCommand(kId, Command("a:1"));
    });
    Client again(path_);
    again.Send(Status(v1::TRAINER_STARTING));
    EXPECT_EQ(again.Receive(), "a:1");
  });
  EXPECT_TRUE(refused_.empty());
}

// What a process of another user sees when it dials `path` and sends nothing.
std::string DialAsNobody(const std::string& path) {
  int answer[2];
  EXPECT_EQ(::pipe(answer), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    char byte = 0;
    const char* said = "closed";
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) {
      said = "not another user";
    } else if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      said = "cannot connect";
    } else if (::shutdown(fd, SHUT_WR) != 0 || ::read(fd, &byte, 1) > 0) {
      said = "heard something";
    }
    if (::write(answer[1], said, std::strlen(said)) < 0) ::_exit(1);
    ::_exit(0);
  }
  ::close(answer[1]);
  char text[64];
  const ssize_t size = ::read(answer[0], text, sizeof(text));
  ::close(answer[0]);
  ::waitpid(child, nullptr, 0);
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : "nothing";
}

TEST_F(TrainerSocketsTest, ProcessOfAnotherUserIsRefusedEvenIfItGetsThrough) {
  PACELINE_NEEDS_OTHER_USERS();
  Run([&] {
    EXPECT_EQ(DialAsNobody(path_), "cannot connect");
    EXPECT_EQ(::chmod(path_.c_str(), 0666), 0);
    EXPECT_EQ(DialAsNobody(path_), "closed");
  });
  EXPECT_EQ(refused_, std::vector{TrainerSockets::Refusal::kUser});
}

TEST_F(TrainerSocketsTest, SocketIsGivenToTheTrainersUser) {
  PACELINE_NEEDS_OTHER_USERS();
  TrainerSockets::Peers peers = OwnPeers();
  peers.uid = kNobody;
  peers.gid = kNobody;
  sockets_.emplace(loop_, *poller_, peers, [](const TrainerId&, const v1::TrainerStatus&) {});
  ASSERT_TRUE(sockets_->Listen(path_).ok());
  struct stat info;
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, kNobody);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  Run([&] { EXPECT_EQ(DialAsNobody(path_), "closed"); });
  EXPECT_TRUE(refused_.empty());
}

}  // namespace
}  // namespace paceline
