// A fixture for tests that run the real shim, with shell scripts as trainers.
#ifndef WORKER_SHIM_TESTING_SHIM_TEST_H_
#define WORKER_SHIM_TESTING_SHIM_TEST_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/shim/confinement.h"
#include "worker/shim/exit_record.h"
#include "worker/shim/testing/other_users.h"
#include "worker/shim/trainer_dir.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {

// Polls `condition`, since processes send no notice of their progress.
inline bool Eventually(const std::function<bool()>& condition) {
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  while (!condition()) {
    if (absl::Now() > give_up) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

inline std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline bool Gone(pid_t pid) {
  return Eventually([pid] {
    // A zombie that was not reaped yet has ended, too.
    return ::kill(pid, 0) != 0 ||
           Contents(absl::StrCat("/proc/", pid, "/stat")).find(") Z") != std::string::npos;
  });
}

class ShimTest : public ::testing::Test {
 protected:
  ShimTest() {
    dir_ = ::testing::TempDir() + "/shim_test.XXXXXX";
    EXPECT_NE(::mkdtemp(dir_.data()), nullptr);
    own_dir_ = dir_;
  }

  // As the daemon does for trainers of another user: their folder is inside one that is ours.
  void RunAsNobody() {
    dir_ = "/tmp/shim_test.XXXXXX";  // Others may enter it, unlike test folders.
    ASSERT_NE(::mkdtemp(dir_.data()), nullptr);
    own_dir_ = dir_ + "/own";
    ASSERT_EQ(::chmod(dir_.c_str(), 0711), 0);
    ASSERT_EQ(::mkdir(own_dir_.c_str(), 0700), 0);
    ASSERT_EQ(::chown(own_dir_.c_str(), kNobody, kNobody), 0);
    confinement_.user = UserIds{kNobody, kNobody, {kNobody, 12345}};
  }

  ~ShimTest() override {
    if (shim_ > 0 && !reaped_) {
      ::kill(shim_, SIGUSR1);
      ::waitpid(shim_, nullptr, 0);
    }
    if (own_dir_ != dir_) std::filesystem::remove_all(dir_);
  }

  void Start(const std::vector<std::string>& program) {
    auto lock = TrainerLock::Take(dir_);
    ASSERT_TRUE(lock.ok()) << lock.status();
    std::vector<std::string> arguments = {
        "worker/shim/paceline-shim", "--dir", dir_, "--own-dir", own_dir_, "--lock-fd",
        absl::StrCat(lock->fd())};
    const std::vector<std::string> confined = ConfinementFlags(confinement_);
    arguments.insert(arguments.end(), confined.begin(), confined.end());
    arguments.insert(arguments.end(), more_flags_.begin(), more_flags_.end());
    arguments.emplace_back("--");
    arguments.insert(arguments.end(), program.begin(), program.end());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    shim_ = ::fork();
    if (shim_ == 0) {
      ::fcntl(lock->fd(), F_SETFD, 0);
      ::execv(pointers[0], pointers.data());
      ::_exit(127);
    }
  }

  void StartScript(const std::string& script) { Start({"/bin/bash", "-c", script}); }

  // Waits for the shim's exit record.
  ExitRecord Wait() {
    EXPECT_EQ(::waitpid(shim_, nullptr, 0), shim_);
    reaped_ = true;
    const auto record = ReadExitRecord(dir_);
    EXPECT_TRUE(record.ok() && record->has_value()) << record.status();
    return record.ok() && record->has_value() ? **record : ExitRecord();
  }

  std::string Log() {
    return Contents(absl::StrCat(own_dir_, "/log/", trainer_dir::kFirstLogSegment));
  }

  // Waits until `word` is in the log, which shows how far the script is.
  bool Logged(const std::string& word) {
    return Eventually([&] { return Log().find(word) != std::string::npos; });
  }

  pid_t PidIn(const std::string& file) {
    EXPECT_TRUE(Eventually([&] { return !Contents(own_dir_ + "/" + file).empty(); }));
    return static_cast<pid_t>(std::stoi(Contents(own_dir_ + "/" + file)));
  }

  std::string dir_;
  std::string own_dir_;
  Confinement confinement_;
  std::vector<std::string> more_flags_;
  pid_t shim_ = -1;
  bool reaped_ = false;
};

}  // namespace paceline

#endif  // WORKER_SHIM_TESTING_SHIM_TEST_H_
