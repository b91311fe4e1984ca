#include "worker/daemon/trainers/unpack_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/job_spec/code_files.h"
#include "common/tls/key_and_request.h"
#include "worker/shim/testing/other_users.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class UnpackCodeTest : public ::testing::Test {
 protected:
  UnpackCodeTest() {
    std::string made = absl::StrCat(::testing::TempDir(), "/unpack-XXXXXX");
    above_ = ::mkdtemp(made.data());
    dir_ = above_ + "/code";
  }
  ~UnpackCodeTest() override { fs::remove_all(above_); }

  void Add(const std::string& path, const std::string& data, const std::string& link = "",
           bool executable = false) {
    v1::CodeFile file;
    file.set_path(path);
    file.set_data(data);
    file.set_link(link);
    file.set_executable(executable);
    AppendCodeFile(file, &bytes_);
  }
  absl::Status Unpack(const JobUser& user = {}, bool stopped = false) const {
    absl::Status status;
    const std::atomic<bool> stop = stopped;
    // A thread of its own, because it becomes another user for good.
    std::thread([&] { status = UnpackCode(user, dir_, Sha256Hex(bytes_), bytes_, stop); }).join();
    return status;
  }
  std::string Read(const std::string& path) const {
    std::stringstream text;
    text << std::ifstream(dir_ + "/" + path).rdbuf();
    return text.str();
  }

  std::string above_;
  std::string dir_;
  std::string bytes_;
};

TEST_F(UnpackCodeTest, FilesAreAsTheyWere) {
  Add("a/b/odd\n\xff name", std::string("\0\xff", 2));
  Add("empty", "");
  Add("link", "", "a/b");
  Add("run.sh", "echo", "", /*executable=*/true);
  ASSERT_TRUE(Unpack().ok()) << Unpack();
  EXPECT_EQ(Read("a/b/odd\n\xff name"), std::string("\0\xff", 2));
  EXPECT_EQ(fs::file_size(dir_ + "/empty"), 0u);
  EXPECT_EQ(fs::read_symlink(dir_ + "/link"), "a/b");
  struct stat info {};
  ASSERT_EQ(::stat((dir_ + "/run.sh").c_str(), &info), 0);
  EXPECT_NE(info.st_mode & S_IXUSR, 0u);
  ASSERT_EQ(::stat((dir_ + "/empty").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & S_IXUSR, 0u);
  ASSERT_EQ(::stat(dir_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
}

TEST_F(UnpackCodeTest, WhatLeadsOutOfTheFolderIsNotWritten) {
  struct Hostile {
    std::string path, link, problem;
  };
  for (const Hostile& hostile : {Hostile{"../out", "", "is no path below the folder"},
                                 Hostile{above_ + "/out", "", "is no path below the folder"},
                                 Hostile{"d/../../out", "", "is no path below the folder"},
                                 Hostile{"z", "../out", "leads out of the folder"},
                                 Hostile{"z", above_ + "/out", "leads out of the folder"}}) {
    bytes_.clear();
    Add(hostile.path, hostile.link.empty() ? "x" : "", hostile.link);
    EXPECT_THAT(std::string(Unpack().message()), HasSubstr(hostile.problem)) << hostile.path;
    EXPECT_FALSE(fs::exists(fs::symlink_status(above_ + "/out"))) << hostile.path;
    fs::remove_all(dir_);
  }
  bytes_.clear();
  Add("d", "", "e");
  Add("d/f", "x");
  EXPECT_THAT(std::string(Unpack().message()), HasSubstr("lies below"));
}

TEST_F(UnpackCodeTest, OtherBytesThanTheHashSaysAreNotUnpacked) {
  Add("a", "x");
  const std::atomic<bool> stop = false;
  const absl::Status status = UnpackCode({}, dir_, Sha256Hex("other"), bytes_, stop);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not what its hash says"));
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(UnpackCodeTest, AFolderThatIsThereIsNotWrittenInto) {
  Add("a", "x");
  fs::create_directory(dir_);
  EXPECT_THAT(std::string(Unpack().message()), HasSubstr("File exists"));
  EXPECT_FALSE(fs::exists(dir_ + "/a"));
}

TEST_F(UnpackCodeTest, AFullDiskIsSaid) {
  Add("data", std::string(1 << 20, 'x'));
  bool mounted = false;
  absl::Status status;
  // Only this thread sees the small disk.
  std::thread([&] {
    mounted = ::unshare(CLONE_NEWNS) == 0 &&
              ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
              ::mount("tmpfs", above_.c_str(), "tmpfs", 0, "size=64k") == 0;
    const std::atomic<bool> stop = false;
    if (mounted) status = UnpackCode({}, dir_, Sha256Hex(bytes_), bytes_, stop);
  }).join();
  if (!mounted) GTEST_SKIP() << "only root mounts";
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write data: No space left"));
}

TEST_F(UnpackCodeTest, AStopEndsIt) {
  Add("a", "x");
  EXPECT_TRUE(absl::IsCancelled(Unpack({}, /*stopped=*/true)));
}

TEST_F(UnpackCodeTest, FilesAreTheJobUsers) {
  PACELINE_NEEDS_OTHER_USERS();
  fs::permissions(above_, fs::perms::all);
  Add("a/b", "x");
  JobUser user;
  user.name = "nobody";
  user.ids.uid = kNobody;
  user.ids.gid = kNobody;
  user.is_own = false;
  ASSERT_TRUE(Unpack(user).ok()) << Unpack(user);
  for (const char* path : {"", "/a", "/a/b"}) {
    struct stat info {};
    ASSERT_EQ(::stat((dir_ + path).c_str(), &info), 0) << path;
    EXPECT_EQ(info.st_uid, kNobody) << path;
    EXPECT_EQ(info.st_gid, kNobody) << path;
  }
}

}  // namespace
}  // namespace paceline
