#include "cli/config/config_file.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ConfigFileTest : public ::testing::Test {
 protected:
  ConfigFileTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~ConfigFileTest() override { fs::remove_all(root_); }

  std::string Message(const std::string& text) const {
    std::ofstream(path_) << text;
    const auto config = ReadConfig(path_);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(config.status().message());
  }

  const std::string root_ = ::testing::TempDir() + "/config_file_test";
  const std::string path_ = root_ + "/config.yaml";
};

TEST_F(ConfigFileTest, PathFollowsTheEnvironment) {
  std::map<std::string, std::string> environment;
  const auto variable = [&](const char* name) { return environment[name]; };
  EXPECT_EQ(ConfigPath(variable), "");
  environment["HOME"] = "/h";
  EXPECT_EQ(ConfigPath(variable), "/h/.config/paceline/config.yaml");
  environment["XDG_CONFIG_HOME"] = "relative";
  EXPECT_EQ(ConfigPath(variable), "/h/.config/paceline/config.yaml");
  environment["XDG_CONFIG_HOME"] = "/x";
  EXPECT_EQ(ConfigPath(variable), "/x/paceline/config.yaml");
  environment["PACELINE_CONFIG"] = "/c.yaml";
  EXPECT_EQ(ConfigPath(variable), "/c.yaml");
}

TEST_F(ConfigFileTest, MissingAndEmptyFilesAreEmptyConfigurations) {
  EXPECT_TRUE(ReadConfig("")->contexts.empty());
  EXPECT_TRUE(ReadConfig(path_)->contexts.empty());
  std::ofstream(path_) << "# nothing yet\n";
  EXPECT_TRUE(ReadConfig(path_)->contexts.empty());
}

TEST_F(ConfigFileTest, WhatIsWrittenIsReadAgain) {
  CliConfig config;
  config.current = "prod";
  config.contexts["prod"] = {"head.example.org:7450"};
  config.contexts["1e5"] = {"10.0.0.7"};
  const std::string path = root_ + "/new/folder/config.yaml";
  ASSERT_TRUE(WriteConfig(path, config).ok());
  const auto again = ReadConfig(path);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->current, "prod");
  EXPECT_EQ(again->contexts.size(), 2);
  EXPECT_EQ(again->contexts.at("prod").server, "head.example.org:7450");
  EXPECT_EQ(again->contexts.at("1e5").server, "10.0.0.7");
}

TEST_F(ConfigFileTest, IdentityIsWrittenAndReadAgain) {
  CliConfig config;
  config.contexts["prod"] = {"h", "/p/ca.pem", "/p/cert.pem", "/p/key.pem"};
  config.contexts["here"].server = "127.0.0.1";
  config.contexts["here"].plaintext = true;
  ASSERT_TRUE(WriteConfig(path_, config).ok());
  const auto again = ReadConfig(path_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->contexts.at("prod").ca, "/p/ca.pem");
  EXPECT_EQ(again->contexts.at("prod").certificate, "/p/cert.pem");
  EXPECT_EQ(again->contexts.at("prod").key, "/p/key.pem");
  EXPECT_FALSE(again->contexts.at("prod").plaintext);
  EXPECT_TRUE(again->contexts.at("here").plaintext);
}

TEST_F(ConfigFileTest, TokenNeedsTheAuthorityAlone) {
  CliConfig config;
  config.contexts["lab"].server = "h";
  config.contexts["lab"].ca = "/l/ca.pem";
  config.contexts["lab"].token_file = "/l/token";
  ASSERT_TRUE(WriteConfig(path_, config).ok());
  const auto again = ReadConfig(path_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->contexts.at("lab").ca, "/l/ca.pem");
  EXPECT_EQ(again->contexts.at("lab").token_file, "/l/token");
  EXPECT_EQ(again->contexts.at("lab").certificate, "");
  for (const char* more :
       {"", "plaintext: true, ", "ca: /c, plaintext: true, ", "ca: /c, certificate: /d, key: /k, ",
        "ca: /c, certificate: /d, ", "ca: /c, key: /k, ", "certificate: /d, key: /k, "}) {
    EXPECT_THAT(Message(std::string("contexts: {lab: {server: h, ") + more + "token_file: /t}}"),
                HasSubstr("or ca and token_file, without plaintext"))
        << more;
  }
}

TEST_F(ConfigFileTest, HalfAnIdentityIsNone) {
  EXPECT_THAT(Message("contexts: {prod: {server: h, ca: /c}}\n"), HasSubstr("needs all of ca"));
  EXPECT_THAT(Message("contexts: {p: {server: h, ca: /c, certificate: /d, key: /k, "
                      "plaintext: true}}\n"),
              HasSubstr("without plaintext"));
  EXPECT_THAT(Message("contexts: {prod: {server: h, plaintext: perhaps}}\n"),
              HasSubstr("true or false"));
}

TEST_F(ConfigFileTest, IdentityLiesBesideTheConfiguration) {
  EXPECT_EQ(DefaultTlsDir([](const char*) { return ""; }), "");
  EXPECT_EQ(DefaultTlsDir([](const char* name) {
              return std::string(name) == "PACELINE_CONFIG" ? "/c/config.yaml" : "";
            }),
            "/c/tls");
}

TEST_F(ConfigFileTest, SymbolicLinkStaysOne) {
  std::ofstream(root_ + "/real.yaml") << "";
  fs::create_symlink(root_ + "/real.yaml", path_);
  ASSERT_TRUE(WriteConfig(path_, {"", {{"a", {"h"}}}}).ok());
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_EQ(ReadConfig(root_ + "/real.yaml")->contexts.count("a"), 1);
}

TEST_F(ConfigFileTest, ProblemsAreToldWithTheirPlace) {
  EXPECT_EQ(Message("contexts:\n  prod: {srever: h}\n"),
            path_ + ":2:10: unknown key \"srever\"; did you mean \"server\"?");
  EXPECT_EQ(Message("curent: prod\n"),
            path_ + ":1:1: unknown key \"curent\"; did you mean \"current\"?");
  EXPECT_THAT(Message("contexts: {prod: {}}\n"), HasSubstr("context prod has no server"));
  EXPECT_THAT(Message("contexts: {prod: {server: 'http://h'}}\n"), HasSubstr("without http://"));
  EXPECT_THAT(Message("contexts: {'a b': {server: h}}\n"), HasSubstr("cannot be the name"));
  EXPECT_THAT(Message("contexts: {prod: h}\n"), HasSubstr("context prod must be a map"));
  EXPECT_THAT(Message("- a\n"), HasSubstr("the file must be a map"));
  EXPECT_THAT(Message("current: [a]\n"), HasSubstr("current takes one value"));
  EXPECT_THAT(Message("contexts: {\n"), HasSubstr(path_ + ":"));
  EXPECT_THAT(Message(std::string((1 << 20) + 1, '#')), HasSubstr("larger than 1 MiB"));
}

TEST_F(ConfigFileTest, DirectoryIsNoFile) {
  EXPECT_EQ(ReadConfig(root_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ConfigFileTest, AddressesAreChecked) {
  for (const char* good :
       {"h", "h:1", "10.0.0.1:65535", "[::1]:7450", "[::1]", "::1", "a:1,b:2", "a, b"}) {
    EXPECT_TRUE(CheckServerAddress(good).ok()) << good;
  }
  for (const char* bad : {"", "h:", "h:0", "h:65536", "h:x", "a b", ":1", "grpc://h", "h/p",
                          "a:1,b:x", ",", "[::1", "[::1]:", "[::1]:0", "[h]:1"}) {
    EXPECT_FALSE(CheckServerAddress(bad).ok()) << bad;
  }
}

TEST_F(ConfigFileTest, UnknownContextIsToldWithTheNearest) {
  const CliConfig config = {"", {{"prod", {"h"}}}};
  const auto found = FindContext(config, "prd", "/c");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("did you mean \"prod\"?"));
  EXPECT_EQ(FindContext(config, "prod", "/c")->server, "h");
}

}  // namespace
}  // namespace paceline
