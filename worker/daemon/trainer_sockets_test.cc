#include "worker/daemon/trainer_sockets.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/event_loop.h"
#include "worker/link/frame.h"

namespace paceline {
namespace {

const TrainerId kId{JobId("job-1"), Generation(1), Rank(3)};

v1::TrainerStatus Status(v1::TrainerState state) {
  v1::TrainerStatus status;
  *status.mutable_id() = IdToProto(kId);
  status.set_state(state);
  return status;
}

v1::TrainerCommand Command(const std::string& store) {
  v1::TrainerCommand command;
  command.set_store_address(store);
  return command;
}

// The trainer's end, blocking; on a thread of its own beside the loop.
class Client {
 public:
  explicit Client(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
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

  // The next command's store; "closed" when the daemon has hung up.
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

  const std::string path_ = absl::StrCat("/tmp/trainer_sockets_test.", ::getpid());
  std::vector<v1::TrainerState> seen_;  // On the loop.
  EventLoop loop_;
  std::optional<FdPoller> poller_{loop_};
  std::optional<TrainerSockets> sockets_{
      std::in_place, *poller_, [this](const TrainerId& id, const v1::TrainerStatus& status) {
        EXPECT_EQ(id, kId);
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
  TrainerSockets second(*poller_, [](const TrainerId&, const v1::TrainerStatus&) {});
  EXPECT_TRUE(second.Listen(path_).ok());
  sockets_.reset();
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
}

TEST_F(TrainerSocketsTest, TooLongAPathIsExplained) {
  TrainerSockets other(*poller_, [](const TrainerId&, const v1::TrainerStatus&) {});
  EXPECT_EQ(other.Listen("/tmp/" + std::string(200, 'x')).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace paceline
