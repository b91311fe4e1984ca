#include "worker/trainer/testing/serve_trainers.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "common/log.h"

namespace paceline {
namespace {

constexpr size_t kMaxPacket = 8192;

[[noreturn]] void Become(RunTrainer run, std::string packet) {
  std::vector<char*> argv;
  for (size_t at = 0; at < packet.size(); at = packet.find('\0', at) + 1) {
    argv.push_back(&packet[at]);
  }
  argv.push_back(nullptr);
  const int code = run(static_cast<int>(argv.size()) - 1, argv.data());
  std::fflush(nullptr);
  _exit(code);
}

// The trainer's parent is gone when this returns.
pid_t ForkTrainer(RunTrainer run, const std::string& packet) {
  int ends[2];
  PACELINE_CHECK(pipe(ends) == 0);
  const pid_t parent = fork();
  PACELINE_CHECK(parent >= 0);
  if (parent == 0) {
    const pid_t trainer = fork();
    if (trainer == 0) {
      for (const int fd : {STDIN_FILENO, ends[0], ends[1]}) close(fd);
      Become(run, packet);
    }
    _exit(write(ends[1], &trainer, sizeof(trainer)) == sizeof(trainer) ? 0 : 1);
  }
  pid_t trainer = -1;
  PACELINE_CHECK(read(ends[0], &trainer, sizeof(trainer)) == sizeof(trainer));
  PACELINE_CHECK(waitpid(parent, nullptr, 0) == parent);
  for (const int fd : ends) close(fd);
  return trainer;
}

}  // namespace

int ServeTrainers(RunTrainer run) {
  // A fork lacks its parent's threads and could wait for one of them for ever.
  const std::filesystem::directory_iterator threads("/proc/self/task");
  PACELINE_CHECK(std::distance(begin(threads), end(threads)) == 1);
  std::string packet(kMaxPacket, '\0');
  while (true) {
    const ssize_t size = recv(STDIN_FILENO, packet.data(), packet.size(), 0);
    if (size <= 0) return 0;
    const pid_t trainer = ForkTrainer(run, packet.substr(0, static_cast<size_t>(size)));
    if (send(STDIN_FILENO, &trainer, sizeof(trainer), MSG_NOSIGNAL) < 0) return 1;
  }
}

}  // namespace paceline
