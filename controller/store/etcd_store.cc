#include "controller/store/etcd_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

using etcdserverpb::Compare;
using etcdserverpb::RangeRequest;
using etcdserverpb::RequestOp;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

constexpr int kFormat = 1;
constexpr size_t kPartBytes = 512 << 10;
// Limits of one transaction. etcd's are 128 operations and 1.5 MiB, including the sequence.
constexpr size_t kMaxOperations = 100;
constexpr size_t kMaxBytes = 1 << 20;
// Bytes of an operation, apart from key and value.
constexpr size_t kOperationBytes = 64;
constexpr size_t kDigits = 8;  // In the number of a part.
constexpr int64_t kPage = 500;
// A scrape of metrics must not wait for an etcd that is away.
constexpr EtcdClient::Patience kSizePatience = {absl::Milliseconds(500), absl::Milliseconds(500)};
constexpr EtcdClient::Patience kLoadPatience = {absl::Seconds(30), absl::Seconds(10)};

std::string Number(size_t number) { return absl::StrCat(absl::Dec(number, absl::kZeroPad8)); }

// Returns the first key after all that begin with `prefix`.
std::string EndOf(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

RequestOp PutOf(const std::string& key, absl::string_view value) {
  RequestOp operation;
  operation.mutable_request_put()->set_key(key);
  operation.mutable_request_put()->set_value(std::string(value));
  return operation;
}

RequestOp DeleteOf(const std::string& key) {
  RequestOp operation;
  operation.mutable_request_delete_range()->set_key(key);
  return operation;
}

RequestOp DeleteAllOf(const std::string& prefix) {
  RequestOp operation = DeleteOf(prefix);
  operation.mutable_request_delete_range()->set_range_end(EndOf(prefix));
  return operation;
}

RequestOp ReadOf(const std::string& key) {
  RequestOp operation;
  operation.mutable_request_range()->set_key(key);
  return operation;
}

size_t BytesOf(const RequestOp& operation) { return operation.ByteSizeLong() + kOperationBytes; }

// Returns the index after the last operation that fits in one transaction from `begin` on.
size_t EndOfTransaction(const std::vector<RequestOp>& operations, size_t begin) {
  size_t bytes = 0;
  size_t end = begin;
  while (end < operations.size() && end - begin < kMaxOperations) {
    bytes += BytesOf(operations[end]);
    if (end > begin && bytes > kMaxBytes) break;
    ++end;
  }
  return end;
}

}  // namespace

std::string EtcdLeaderKey(const std::string& prefix) { return prefix + "/leader"; }

EtcdStore::EtcdStore(EtcdClient* client, const std::string& prefix, int64_t term,
                     EtcdClient::Patience patience)
    : client_(client), prefix_(prefix), term_(term), patience_(patience) {}

absl::StatusOr<std::unique_ptr<EtcdStore>> EtcdStore::Open(EtcdClient* client,
                                                           const std::string& prefix, int64_t term,
                                                           EtcdClient::Patience patience) {
  std::unique_ptr<EtcdStore> store(new EtcdStore(client, prefix, term, patience));
  PACELINE_RETURN_IF_ERROR(store->Initialize());
  return store;
}

absl::Status EtcdStore::Initialize() {
  PACELINE_ASSIGN_OR_RETURN(const auto sequence, ReadAll(prefix_ + "/sequence"));
  if (!sequence.empty()) sequence_revision_ = sequence.front().mod_revision();
  PACELINE_RETURN_IF_ERROR(CheckFormat());
  PACELINE_RETURN_IF_ERROR(FinishJournal());
  return FindParts();
}

absl::Status EtcdStore::CheckFormat() {
  const std::string key = prefix_ + "/format";
  PACELINE_ASSIGN_OR_RETURN(const auto found, ReadAll(key));
  if (found.empty()) return Write({PutOf(key, absl::StrCat(kFormat))});
  int format = 0;
  if (!absl::SimpleAtoi(found.front().value(), &format)) {
    return absl::DataLossError(absl::StrCat("etcd: ", key, " is not ours: choose another prefix"));
  }
  if (format > kFormat) {
    return absl::OutOfRangeError(
        absl::StrCat("etcd: ", prefix_, " was written by a newer version (format ", format,
                     ", this program knows ", kFormat, "): use that version"));
  }
  return absl::OkStatus();
}

absl::Status EtcdStore::FinishJournal() {
  const std::string journal = prefix_ + "/journal/";
  PACELINE_ASSIGN_OR_RETURN(const auto entries, ReadAll(journal));
  if (entries.empty()) return absl::OkStatus();
  // It comes last in the order of keys, since the parts have numbers.
  if (entries.back().key() == journal + "complete") {
    std::string whole;
    for (size_t i = 0; i + 1 < entries.size(); ++i) whole += entries[i].value();
    TxnRequest batch;
    if (absl::StrCat(entries.size() - 1) != entries.back().value() ||
        !batch.ParseFromString(whole)) {
      return absl::DataLossError(absl::StrCat("etcd: the journal ", journal, " is damaged"));
    }
    PACELINE_RETURN_IF_ERROR(WriteAll({batch.success().begin(), batch.success().end()}));
  }
  return Write({DeleteAllOf(journal)});
}

absl::Status EtcdStore::FindParts() {
  const std::string more = prefix_ + "/more/";
  PACELINE_ASSIGN_OR_RETURN(const auto entries, ReadAll(more, /*keys_only=*/true));
  for (const mvccpb::KeyValue& entry : entries) {
    const std::string& key = entry.key();
    if (key.size() < more.size() + 1 + kDigits) {
      return absl::DataLossError(absl::StrCat("etcd: ", key, " is not ours"));
    }
    size_t& parts = parts_[key.substr(more.size(), key.size() - more.size() - 1 - kDigits)];
    parts = std::max<size_t>(parts, 1) + 1;
  }
  return absl::OkStatus();
}

absl::Status EtcdStore::Commit(const WriteBatch& batch) {
  if (batch.empty()) return absl::OkStatus();
  Operations operations;
  for (const auto& [key, value] : batch.puts) AddPut(key, value, operations);
  for (const std::string& key : batch.deletes) AddDelete(key, operations);
  if (EndOfTransaction(operations, 0) == operations.size()) return Write(operations);
  return WriteThroughJournal(operations);
}

void EtcdStore::AddPut(const std::string& key, absl::string_view value, Operations& operations) {
  operations.push_back(PutOf(absl::StrCat(prefix_, "/state/", key), value.substr(0, kPartBytes)));
  size_t parts = 1;
  for (; parts * kPartBytes < value.size(); ++parts) {
    operations.push_back(PutOf(absl::StrCat(prefix_, "/more/", key, "/", Number(parts)),
                               value.substr(parts * kPartBytes, kPartBytes)));
  }
  SetParts(key, parts, operations);
}

void EtcdStore::AddDelete(const std::string& key, Operations& operations) {
  operations.push_back(DeleteOf(absl::StrCat(prefix_, "/state/", key)));
  SetParts(key, 1, operations);
}

// Deletes the parts that the value used to have and no longer has.
void EtcdStore::SetParts(const std::string& key, size_t parts, Operations& operations) {
  const auto before = parts_.find(key);
  if (before != parts_.end()) {
    for (size_t part = parts; part < before->second; ++part) {
      operations.push_back(DeleteOf(absl::StrCat(prefix_, "/more/", key, "/", Number(part))));
    }
    parts_.erase(before);
  }
  if (parts > 1) parts_[key] = parts;
}

absl::Status EtcdStore::Write(const Operations& operations) {
  const std::string leader = EtcdLeaderKey(prefix_);
  const std::string sequence = prefix_ + "/sequence";
  const std::string mine = absl::StrCat(term_, "/", ++number_);
  TxnRequest request;
  Compare& leads = *request.add_compare();
  leads.set_target(Compare::CREATE);
  leads.set_key(leader);
  leads.set_create_revision(term_);
  Compare& follows = *request.add_compare();
  follows.set_target(Compare::MOD);
  follows.set_key(sequence);
  follows.set_mod_revision(sequence_revision_);
  for (const RequestOp& operation : operations) *request.add_success() = operation;
  *request.add_success() = PutOf(sequence, mine);
  *request.add_failure() = ReadOf(leader);
  *request.add_failure() = ReadOf(sequence);
  PACELINE_ASSIGN_OR_RETURN(const TxnResponse response, client_->Txn(request, patience_));
  if (!response.succeeded()) return Refused(response, mine);
  sequence_revision_ = response.header().revision();
  return absl::OkStatus();
}

absl::Status EtcdStore::Refused(const TxnResponse& response, const std::string& mine) {
  const auto& leader = response.responses(0).response_range().kvs();
  const auto& sequence = response.responses(1).response_range().kvs();
  if (!sequence.empty() && sequence[0].value() == mine) {
    // An earlier attempt of this transaction was carried out, but its answer was lost.
    sequence_revision_ = sequence[0].mod_revision();
    return absl::OkStatus();
  }
  if (leader.empty() || leader[0].create_revision() != term_) {
    return absl::AbortedError(
        leader.empty()
            ? "this controller leads no more"
            : absl::StrCat("this controller leads no more: ", leader[0].value(), " does"));
  }
  return absl::DataLossError(absl::StrCat("etcd: somebody else writes below ", prefix_,
                                          ": give each cluster its own "
                                          "--etcd-prefix"));
}

absl::Status EtcdStore::WriteAll(const Operations& operations) {
  for (size_t begin = 0; begin < operations.size();) {
    const size_t end = EndOfTransaction(operations, begin);
    PACELINE_RETURN_IF_ERROR(Write({operations.begin() + static_cast<std::ptrdiff_t>(begin),
                                    operations.begin() + static_cast<std::ptrdiff_t>(end)}));
    begin = end;
  }
  return absl::OkStatus();
}

absl::Status EtcdStore::WriteThroughJournal(const Operations& operations) {
  const std::string journal = prefix_ + "/journal/";
  TxnRequest batch;
  for (const RequestOp& operation : operations) *batch.add_success() = operation;
  const std::string whole = batch.SerializeAsString();
  size_t parts = 0;
  for (; parts * kMaxBytes < whole.size(); ++parts) {
    const absl::string_view part = absl::string_view(whole).substr(parts * kMaxBytes, kMaxBytes);
    PACELINE_RETURN_IF_ERROR(Write({PutOf(journal + Number(parts), part)}));
  }
  PACELINE_RETURN_IF_ERROR(Write({PutOf(journal + "complete", absl::StrCat(parts))}));
  PACELINE_RETURN_IF_ERROR(WriteAll(operations));
  return Write({DeleteAllOf(journal)});
}

absl::StatusOr<std::vector<mvccpb::KeyValue>> EtcdStore::ReadAll(const std::string& prefix,
                                                                 bool keys_only) {
  std::vector<mvccpb::KeyValue> found;
  RangeRequest request;
  request.set_key(prefix);
  request.set_range_end(EndOf(prefix));
  request.set_limit(kPage);
  request.set_keys_only(keys_only);
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(etcdserverpb::RangeResponse response,
                              client_->Range(request, kLoadPatience));
    for (mvccpb::KeyValue& entry : *response.mutable_kvs()) found.push_back(std::move(entry));
    if (!response.more() || found.empty()) return found;
    request.set_key(found.back().key() + std::string(1, '\0'));
  }
}

absl::StatusOr<std::map<std::string, std::string>> EtcdStore::Load(const std::string& prefix) {
  const std::string state = prefix_ + "/state/";
  const std::string more = prefix_ + "/more/";
  std::map<std::string, std::string> entries;
  PACELINE_ASSIGN_OR_RETURN(auto firsts, ReadAll(state + prefix));
  for (mvccpb::KeyValue& first : firsts) {
    entries[first.key().substr(state.size())] = std::move(*first.mutable_value());
  }
  PACELINE_ASSIGN_OR_RETURN(const auto further, ReadAll(more + prefix));
  for (const mvccpb::KeyValue& part : further) {
    const size_t end = part.key().size() - 1 - kDigits;  // FindParts has checked its length.
    // A part of `a/b` may match a prefix that its key does not.
    if (end < more.size() + prefix.size()) continue;
    const auto entry = entries.find(part.key().substr(more.size(), end - more.size()));
    if (entry == entries.end()) {
      return absl::DataLossError(absl::StrCat("etcd: ", part.key(), " belongs to no record"));
    }
    entry->second += part.value();
  }
  return entries;
}

int64_t EtcdStore::SizeBytes() { return client_->DatabaseBytes(kSizePatience).value_or(0); }

}  // namespace paceline
