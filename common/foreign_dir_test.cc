#include "common/foreign_dir.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class ForeignDirTest : public ::testing::Test {
 protected:
  ForeignDirTest() {
    root_ = ::testing::TempDir() + "/foreign_dir_test.XXXXXX";
    EXPECT_NE(::mkdtemp(root_.data()), nullptr);
    dir_ = root_ + "/dir";
    fs::create_directories(dir_);
    fs::create_directories(root_ + "/outside");
    Write(root_ + "/outside/secret", "secret");
  }
  ~ForeignDirTest() override { EXPECT_TRUE(RemoveForeignTree(root_).ok()); }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }

  ForeignDir Open() const {
    absl::StatusOr<ForeignDir> dir = ForeignDir::Open(dir_);
    EXPECT_TRUE(dir.ok()) << dir.status();
    return *std::move(dir);
  }

  absl::StatusCode CodeOf(const std::string& name, bool writable = false) const {
    return Open().OpenFile(name, writable).status().code();
  }

  // Makes everything that a user without privileges can make and that is no plain file.
  void MakeTraps() {
    fs::create_symlink(root_ + "/outside/secret", dir_ + "/link");
    fs::create_symlink("nowhere", dir_ + "/dangling");
    fs::create_hard_link(root_ + "/outside/secret", dir_ + "/second");
    fs::create_directory(dir_ + "/directory");
    ASSERT_EQ(::mkfifo((dir_ + "/pipe").c_str(), 0600), 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // The path may be too long for a socket address.
    const int at = ::open(dir_.c_str(), O_PATH);
    const std::string path = absl::StrCat("/proc/self/fd/", at, "/socket");
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::close(fd);
    ::close(at);
  }

  std::string root_;
  std::string dir_;
};

TEST_F(ForeignDirTest, PlainFilesAreReadWithinABound) {
  Write(dir_ + "/file", "123456789");
  const ForeignDir dir = Open();
  const absl::StatusOr<ForeignFile> file = dir.OpenFile("file");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->info().st_size, 9);
  EXPECT_EQ(*file->Read(7, 100), "89");
  EXPECT_EQ(*file->Read(9, 100), "");
  EXPECT_EQ(*file->ReadAll(9), "123456789");
  const absl::Status large = dir.OpenFile("file")->ReadAll(8).status();
  EXPECT_EQ(large.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(large.message()), HasSubstr(dir_ + "/file has 9 bytes"));
  EXPECT_EQ(CodeOf("none"), absl::StatusCode::kNotFound);
}

TEST_F(ForeignDirTest, WhatIsNoPlainFileIsRefusedAndBlocksNobody) {
  MakeTraps();
  for (const char* name : {"link", "dangling", "second", "directory", "pipe", "socket"}) {
    EXPECT_EQ(CodeOf(name), absl::StatusCode::kFailedPrecondition) << name;
    EXPECT_EQ(CodeOf(name, /*writable=*/true), absl::StatusCode::kFailedPrecondition) << name;
  }
}

TEST_F(ForeignDirTest, OnlyPipesThatSomebodyReadsAreWrittenTo) {
  MakeTraps();
  Write(dir_ + "/file", "kept");
  for (const char* name : {"link", "dangling", "second", "directory", "socket", "file"}) {
    EXPECT_EQ(Open().WriteToPipe(name, "7\n").code(), absl::StatusCode::kFailedPrecondition)
        << name;
  }
  std::string kept;
  std::ifstream(dir_ + "/file") >> kept;
  EXPECT_EQ(kept, "kept");
  EXPECT_EQ(Open().WriteToPipe("none", "7\n").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Open().WriteToPipe("pipe", "7\n").code(), absl::StatusCode::kUnavailable);
  const int reader = ::open((dir_ + "/pipe").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_TRUE(Open().WriteToPipe("pipe", "7\n").ok());
  char text[8] = {};
  EXPECT_EQ(::read(reader, text, sizeof(text)), 2);
  EXPECT_STREQ(text, "7\n");
  ::close(reader);
}

TEST_F(ForeignDirTest, DirectoryThatIsALinkIsRefused) {
  fs::create_directory_symlink(root_ + "/outside", dir_ + "/linked");
  EXPECT_EQ(Open().OpenDir("linked").status().code(), absl::StatusCode::kFailedPrecondition);
  Write(dir_ + "/file", "");
  EXPECT_EQ(Open().OpenDir("file").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Open().OpenDir("none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ForeignDirTest, AnotherUsersThingsAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes files of others";
  Write(dir_ + "/file", "");
  fs::create_directory(dir_ + "/sub");
  if (::lchown((dir_ + "/file").c_str(), 65534, 65534) != 0) GTEST_SKIP() << "no other users";
  ASSERT_EQ(::lchown((dir_ + "/sub").c_str(), 65534, 65534), 0);
  EXPECT_EQ(CodeOf("file"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Open().OpenDir("sub").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ForeignDirTest, PathsAreSplitAtTheirLastPart) {
  using Parts = std::pair<std::string, std::string>;
  EXPECT_EQ(SplitPath("/a/b"), Parts("/a", "b"));
  EXPECT_EQ(SplitPath("/a"), Parts("/", "a"));
  EXPECT_EQ(SplitPath("a"), Parts("", "a"));
  EXPECT_EQ(ForeignDir::Open("/")->OpenDir("proc")->path(), "/proc");
}

TEST_F(ForeignDirTest, NamesAreBounded) {
  for (const char* name : {"/a", "/b", "/c"}) Write(dir_ + name, "");
  EXPECT_THAT(*Open().Names(4), UnorderedElementsAre("a", "b", "c"));
  EXPECT_EQ(Open().Names(2)->size(), 2);
}

TEST_F(ForeignDirTest, RemovingFollowsNothing) {
  MakeTraps();
  fs::create_directory_symlink(root_ + "/outside", dir_ + "/linked");
  fs::create_directory_symlink(root_ + "/outside", dir_ + "/directory/linked");
  fs::create_hard_link(root_ + "/outside/secret", dir_ + "/directory/second");
  EXPECT_TRUE(Open().Remove("linked").ok());
  EXPECT_TRUE(Open().Remove("linked").ok()) << "it is gone already";
  EXPECT_FALSE(Open().Remove("directory").ok());
  EXPECT_TRUE(RemoveForeignTree(dir_).ok());
  EXPECT_FALSE(fs::exists(dir_));
  EXPECT_TRUE(fs::exists(root_ + "/outside/secret"));
  EXPECT_TRUE(RemoveForeignTree(dir_).ok()) << "it is gone already";
  fs::create_directory_symlink(root_ + "/outside", dir_);
  EXPECT_TRUE(RemoveForeignTree(dir_).ok());
  EXPECT_TRUE(fs::exists(root_ + "/outside/secret"));
}

TEST_F(ForeignDirTest, RemovingComesInPieces) {
  for (int i = 0; i < 25; ++i) Write(absl::StrCat(dir_, "/", i), "");
  const absl::StatusOr<ForeignDir> root = ForeignDir::Open(root_);
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(*root->RemoveSome("dir", 10), false);
  EXPECT_EQ(Open().Names(100)->size(), 15);
  EXPECT_EQ(*root->RemoveSome("dir", 10), false);
  EXPECT_EQ(*root->RemoveSome("dir", 10), true);
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(ForeignDirTest, AnyDepthIsRemoved) {
  constexpr int kDepth = 3000;  // Its path is too long for a system call.
  int at = ::open(dir_.c_str(), O_PATH);
  for (int i = 0; i < kDepth; ++i) {
    ASSERT_EQ(::mkdirat(at, "d", 0700), 0) << i;
    const int next = ::openat(at, "d", O_PATH);
    ::close(at);
    at = next;
  }
  ::close(at);
  const absl::StatusOr<ForeignDir> root = ForeignDir::Open(root_);
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(*root->RemoveSome("dir", 10), false);
  EXPECT_TRUE(RemoveForeignTree(dir_).ok());
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(ForeignDirTest, DirectoriesThatNobodyMayChangeAreRemovedToo) {
  fs::create_directories(dir_ + "/closed/in/it");
  fs::create_directories(dir_ + "/fixed/sticky/more");
  Write(dir_ + "/closed/file", "");
  Write(dir_ + "/fixed/sticky/file", "");
  ASSERT_EQ(::chmod((dir_ + "/fixed/sticky/more").c_str(), 0500), 0);
  ASSERT_EQ(::chmod((dir_ + "/fixed/sticky").c_str(), 01500), 0);
  ASSERT_EQ(::chmod((dir_ + "/fixed").c_str(), 0600), 0);
  ASSERT_EQ(::chmod((dir_ + "/closed/in").c_str(), 0), 0);
  ASSERT_EQ(::chmod((dir_ + "/closed").c_str(), 0), 0);
  ASSERT_EQ(::chmod(dir_.c_str(), 0), 0);
  const absl::Status removed = RemoveForeignTree(dir_);
  EXPECT_TRUE(removed.ok()) << removed;
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(ForeignDirTest, WhatCannotBeRemovedIsTold) {
  EXPECT_FALSE(RemoveForeignTree("/proc/self/status").ok());
  EXPECT_FALSE(RemoveForeignTree("/proc/self").ok());
}

TEST_F(ForeignDirTest, BoundedFilesAreReadThroughLinksAndNothingElseIs) {
  Write(dir_ + "/file", "123456789");
  fs::create_symlink("file", dir_ + "/to_file");
  MakeTraps();
  EXPECT_EQ(*ReadBoundedFile(dir_ + "/to_file", 9), "123456789");
  EXPECT_EQ(*ReadBoundedFile(dir_ + "/second", 9), "secret");
  EXPECT_THAT(std::string(ReadBoundedFile(dir_ + "/file", 8).status().message()),
              HasSubstr(dir_ + "/file has 9 bytes, and no more than 8 are read"));
  // Fails before reading a byte: the file would not fit into memory.
  fs::resize_file(dir_ + "/file", uint64_t{1} << 40);
  EXPECT_EQ(ReadBoundedFile(dir_ + "/file", size_t{1} << 30).status().code(),
            absl::StatusCode::kResourceExhausted);
  for (const char* name : {"/pipe", "/socket", "/directory"}) {
    EXPECT_EQ(ReadBoundedFile(dir_ + name, 9).status().code(),
              absl::StatusCode::kFailedPrecondition)
        << name;
  }
  EXPECT_EQ(ReadBoundedFile(dir_ + "/dangling", 9).status().code(), absl::StatusCode::kNotFound);
  // These files have no known size, or no end.
  EXPECT_THAT(*ReadBoundedFile("/proc/self/stat", 1 << 20), ::testing::Not(IsEmpty()));
  EXPECT_EQ(ReadBoundedFile("/dev/zero", 9).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace paceline
