#include "worker/trainer/checkpoint/testing/small_disk.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/log.h"

namespace paceline {
namespace {

constexpr char kSize[] = "size=4m";

// Keeps mounts private to this process, which becomes root of its own namespace if it is not root.
bool MayMount() {
  if (::unshare(CLONE_NEWNS) == 0) return true;
  const int user = static_cast<int>(::getuid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  return true;
}

}  // namespace

SmallDisk::SmallDisk() {
  directory_ = absl::StrCat(testing::TempDir(), "/disk.XXXXXX");
  PACELINE_CHECK(::mkdtemp(directory_.data()) != nullptr);
  is_there_ = MayMount() && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
              ::mount("tmpfs", directory_.c_str(), "tmpfs", 0, kSize) == 0;
}

void SmallDisk::MakeReadOnly() {
  PACELINE_CHECK(::mount(nullptr, directory_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, kSize) == 0);
}

}  // namespace paceline
