#include "worker/trainer/testing/start_trainer.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <memory>

#include "common/log.h"

namespace paceline {
namespace {

// A process that forks this one's trainers; started when first needed.
class TrainerServer {
 public:
  static TrainerServer& Get(const std::string& program) {
    // They end when this process's ends of their sockets close.
    static auto* servers = new std::map<std::string, std::unique_ptr<TrainerServer>>();
    std::unique_ptr<TrainerServer>& server = (*servers)[program];
    if (server == nullptr) server.reset(new TrainerServer(program));
    return *server;
  }

  // Starts a child of this process.
  pid_t Start(const std::vector<std::string>& args) {
    std::string packet;
    for (const std::string& arg : args) packet.append(arg).push_back('\0');
    pid_t trainer = -1;
    PACELINE_CHECK(send(fd_, packet.data(), packet.size(), MSG_NOSIGNAL) > 0);
    PACELINE_CHECK(recv(fd_, &trainer, sizeof(trainer), 0) == sizeof(trainer) && trainer > 0);
    return trainer;
  }

 private:
  explicit TrainerServer(const std::string& program) {
    int ends[2];
    PACELINE_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    PACELINE_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    const pid_t pid = fork();
    PACELINE_CHECK(pid >= 0);
    if (pid == 0) {
      dup2(ends[1], STDIN_FILENO);
      execl(program.c_str(), program.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    fd_ = ends[0];
  }

  int fd_ = -1;
};

pid_t ForkAndExec(std::vector<std::string> args) {
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  PACELINE_CHECK(pid >= 0);
  if (pid == 0) {
    execv(argv[0], argv.data());
    _exit(127);
  }
  return pid;
}

}  // namespace

pid_t StartTrainer(const std::string& server, const std::vector<std::string>& args) {
  return server.empty() ? ForkAndExec(args) : TrainerServer::Get(server).Start(args);
}

}  // namespace paceline
