#include "cli/dev/dev_dir.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "common/state_lock/state_lock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

DevDir NewDir() {
  const std::string path =
      ::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(path);
  return DevDirAt(path);
}

DevDir DefaultWith(const std::map<std::string, std::string>& environment) {
  return DefaultDevDir([environment](const char* name) {
    const auto at = environment.find(name);
    return at == environment.end() ? "" : at->second;
  });
}

TEST(DevDirTest, EnvironmentNamesTheFolderElseItIsInTheHome) {
  EXPECT_EQ(DefaultWith({{"PACELINE_DEV_DIR", "/x/y/"}, {"HOME", "/home/a"}}).root, "/x/y");
  EXPECT_EQ(DefaultWith({{"HOME", "/home/a"}}).root, "/home/a/.paceline/dev");
}

TEST(DevDirTest, RuntimeDirIsShortAndDependsOnTheFolderOnly) {
  EXPECT_EQ(DevDirAt("/x/y").RuntimeDir(), DevDirAt("/x/y/").RuntimeDir());
  EXPECT_NE(DevDirAt("/x/y").RuntimeDir(), DevDirAt("/x/z").RuntimeDir());
  EXPECT_EQ(DevDirAt("/x/y").RuntimeDir().size(), std::string("/dev/shm/paceline-01234567").size());
}

TEST(DevDirTest, SettingsAreKept) {
  const DevDir dir = NewDir();
  EXPECT_EQ(ReadSettings(dir).workers, 2);
  ASSERT_TRUE(WriteSettings(dir, {5, 3}).ok());
  EXPECT_EQ(ReadSettings(dir).workers, 5);
  EXPECT_EQ(ReadSettings(dir).slots, 3);
}

TEST(DevDirTest, WorkersAreInTheOrderOfTheirNumbers) {
  const DevDir dir = NewDir();
  for (const char* name : {"w10", "w2", "w0"}) {
    std::filesystem::create_directories(dir.root + "/workers/" + name);
  }
  EXPECT_THAT(dir.Workers(), ElementsAre("w0", "w2", "w10"));
}

TEST(DevDirTest, AddressOfAControllerThatIsGoneDoesNotCount) {
  const DevDir dir = NewDir();
  std::ofstream(dir.root + "/controller.json")
      << "{\"pid\": " << getpid() << ", \"grpc\": \"127.0.0.1:5\", \"http\": \"127.0.0.1:6\"}";
  EXPECT_EQ(RunningDevController(dir), "");
  const auto lock = StateLock::Take(dir.root + "/controller");
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(RunningDevController(dir), "127.0.0.1:5");
}

TEST(DevDirTest, DamagedAddressFileIsNone) {
  const DevDir dir = NewDir();
  std::ofstream(dir.root + "/controller.json") << "{\"pid\": \"x\", ";
  EXPECT_EQ(ReadAddresses(ControllerPlace(dir)).pid, 0);
}

}  // namespace
}  // namespace paceline
