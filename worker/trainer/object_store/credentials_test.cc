#include "worker/trainer/object_store/credentials.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "worker/trainer/object_store/object_request.h"

namespace paceline {
namespace {

using Environment = std::map<std::string, std::string>;

Variables In(const Environment& environment) {
  return [environment](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
}

// A home with AWS's files.
std::string Home(const std::string& credentials, const std::string& config) {
  const std::string home =
      testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(home + "/.aws");
  std::ofstream(home + "/.aws/credentials") << credentials;
  std::ofstream(home + "/.aws/config") << config;
  return home;
}

TEST(CredentialsTest, VariablesComeFirst) {
  const std::string home =
      Home("[default]\naws_access_key_id = FILE\naws_secret_access_key = x\n",
           "[default]\nregion = eu-west-1\nendpoint_url = https://config.example\n");
  const absl::StatusOr<S3Settings> settings =
      ReadS3Settings(In({{"HOME", home},
                         {"AWS_ACCESS_KEY_ID", "ENV"},
                         {"AWS_SECRET_ACCESS_KEY", "s"},
                         {"AWS_SESSION_TOKEN", "t"},
                         {"AWS_REGION", "us-west-2"},
                         {"AWS_ENDPOINT_URL", "http://127.0.0.1:9000/"}}));
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->access_key, "ENV");
  EXPECT_EQ(settings->session_token, "t");
  EXPECT_EQ(settings->region, "us-west-2");
  EXPECT_EQ(settings->endpoint, "http://127.0.0.1:9000");
}

TEST(CredentialsTest, FilesAreReadByProfile) {
  const std::string home = Home(
      "# old\n[default]\naws_access_key_id = A\naws_secret_access_key = a\n"
      "[ train ]\naws_access_key_id=B\naws_secret_access_key=b=/+\n",
      "[default]\nregion = eu-west-1\n[profile train]\ns3 =\n  region = no\nregion = eu-north-1\n");
  const absl::StatusOr<S3Settings> plain = ReadS3Settings(In({{"HOME", home}}));
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->access_key, "A");
  EXPECT_EQ(plain->region, "eu-west-1");
  const absl::StatusOr<S3Settings> train =
      ReadS3Settings(In({{"HOME", home}, {"AWS_PROFILE", "train"}}));
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->access_key, "B");
  EXPECT_EQ(train->secret_key, "b=/+");
  EXPECT_EQ(train->region, "eu-north-1");
}

TEST(CredentialsTest, SectionsAreNamedAsAwsDoes) {
  const std::string home =
      Home("[train] # of the cluster\naws_access_key_id=B\naws_secret_access_key=b\n[other\n",
           "[profile default]\nregion = eu-west-1\n[profile train] ; [too]\nregion = eu-north-1\n");
  const absl::StatusOr<S3Settings> plain = ReadS3Settings(In({{"HOME", home}}));
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->region, "eu-west-1");
  const absl::StatusOr<S3Settings> train =
      ReadS3Settings(In({{"HOME", home}, {"AWS_DEFAULT_PROFILE", "train"}}));
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->access_key, "B");
  EXPECT_EQ(train->region, "eu-north-1");
}

TEST(CredentialsTest, ALineBreakBehindASecretIsNoPartOfIt) {
  const absl::StatusOr<S3Settings> s3 = ReadS3Settings(In({{"HOME", "/nonexistent"},
                                                           {"AWS_ACCESS_KEY_ID", "A\n"},
                                                           {"AWS_SECRET_ACCESS_KEY", "s\r\n"},
                                                           {"AWS_SESSION_TOKEN", "t\n"},
                                                           {"AWS_REGION", "eu-west-1\n"}}));
  ASSERT_TRUE(s3.ok()) << s3.status();
  EXPECT_EQ(s3->access_key, "A");
  EXPECT_EQ(s3->secret_key, "s");
  EXPECT_EQ(s3->session_token, "t");
  EXPECT_EQ(s3->region, "eu-west-1");
  const absl::Status within = ReadS3Settings(In({{"HOME", "/nonexistent"},
                                                 {"AWS_ACCESS_KEY_ID", "A"},
                                                 {"AWS_SECRET_ACCESS_KEY", "s"},
                                                 {"AWS_SESSION_TOKEN", "t\nHost: SECRET"}}))
                                  .status();
  EXPECT_EQ(within.code(), absl::StatusCode::kFailedPrecondition) << within;
  EXPECT_FALSE(absl::StrContains(within.message(), "SECRET")) << within;
}

TEST(CredentialsTest, ATokenGoesToNoOtherMachineInPlainText) {
  for (const char* endpoint : {"storage:4443", "http://storage:4443/", "http://localhost.evil"}) {
    EXPECT_TRUE(ReadGsSettings(In({{"STORAGE_EMULATOR_HOST", endpoint}})).ok()) << endpoint;
    const absl::Status status = ReadGsSettings(In({{"STORAGE_EMULATOR_HOST", endpoint},
                                                   {"CLOUDSDK_AUTH_ACCESS_TOKEN", "SECRET"}}))
                                    .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << endpoint;
    EXPECT_FALSE(absl::StrContains(status.message(), "SECRET")) << status;
  }
  for (const char* endpoint : {"localhost:4443", "https://storage:4443", "http://127.0.0.1:1/x"}) {
    EXPECT_TRUE(ReadGsSettings(In({{"STORAGE_EMULATOR_HOST", endpoint},
                                   {"CLOUDSDK_AUTH_ACCESS_TOKEN", "SECRET"}}))
                    .ok())
        << endpoint;
  }
}

TEST(CredentialsTest, WithoutAnyRequestsAreUnsigned) {
  const absl::StatusOr<S3Settings> s3 = ReadS3Settings(In({{"HOME", "/nonexistent"}}));
  ASSERT_TRUE(s3.ok()) << s3.status();
  EXPECT_EQ(s3->access_key, "");
  EXPECT_EQ(s3->region, "us-east-1");
  const absl::StatusOr<GsSettings> gs = ReadGsSettings(In({}));
  ASSERT_TRUE(gs.ok()) << gs.status();
  EXPECT_EQ(gs->token, "");
  EXPECT_EQ(gs->endpoint, "https://storage.googleapis.com");
}

TEST(CredentialsTest, SaysWhatIsIncompleteAndNoSecret) {
  const std::string home = Home("[half]\naws_access_key_id = hushhush\n",
                                "[profile other]\ncredential_process = hushhush\n");
  struct Case {
    const char* variable;
    const char* value;
    const char* text;
  };
  const Case cases[] = {
      {"AWS_ACCESS_KEY_ID", "hushhush", "AWS_SECRET_ACCESS_KEY"},
      {"AWS_PROFILE", "half", "[half]"},
      {"AWS_PROFILE", "other", "credential_process"},
      {"AWS_PROFILE", "missing", "AWS_PROFILE is missing"},
      {"AWS_REGION", "us-east-1.hushhush/", "AWS_REGION"},
      {"AWS_ENDPOINT_URL", "hushhush.host", "AWS_ENDPOINT_URL"},
      {"AWS_ENDPOINT_URL", "https://hushhush@host", "AWS_ENDPOINT_URL"},
  };
  for (const auto& [variable, value, text] : cases) {
    const absl::Status status = ReadS3Settings(In({{"HOME", home}, {variable, value}})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
    EXPECT_FALSE(absl::StrContains(status.message(), "hushhush")) << status;
  }
  const absl::Status token =
      ReadGsSettings(In({{"CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", home + "/none"}})).status();
  EXPECT_TRUE(absl::StrContains(token.message(), home + "/none")) << token;
}

TEST(CredentialsTest, ATokenIsReadAnewFromItsFile) {
  const std::string path = Home("", "") + "/token";
  const Variables variables = In({{"CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", path}});
  for (const char* token : {"one", "two"}) {
    std::ofstream(path) << token << "\n";
    const absl::StatusOr<GsSettings> settings = ReadGsSettings(variables);
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(settings->token, token);
  }
}

std::string AddressOf(const std::string& name, const Environment& environment) {
  const absl::StatusOr<ObjectUrl> url = ParseObjectUrl(name);
  EXPECT_TRUE(url.ok()) << url.status();
  const absl::StatusOr<ObjectRequest> request =
      MakeRequest(name, *url, 0, nullptr, In(environment));
  EXPECT_TRUE(request.ok()) << request.status();
  return request->http.url;
}

TEST(ObjectRequestTest, AddressesBucketsAsTheirStoreDoes) {
  EXPECT_EQ(AddressOf("s3://b/a b", {}), "https://b.s3.us-east-1.amazonaws.com/a%20b");
  EXPECT_EQ(AddressOf("s3://a.b/k", {{"AWS_REGION", "cn-north-1"}}),
            "https://s3.cn-north-1.amazonaws.com.cn/a.b/k");
  EXPECT_EQ(AddressOf("s3://b/k", {{"AWS_ENDPOINT_URL", "http://localhost:9"}}),
            "http://localhost:9/b/k");
  EXPECT_EQ(AddressOf("gs://b/k", {}), "https://storage.googleapis.com/b/k");
  EXPECT_EQ(AddressOf("gs://b/k", {{"STORAGE_EMULATOR_HOST", "localhost:9/"}}),
            "http://localhost:9/b/k");
  EXPECT_EQ(AddressOf("https://host/a%20b", {}), "https://host/a%20b");
}

}  // namespace
}  // namespace paceline
