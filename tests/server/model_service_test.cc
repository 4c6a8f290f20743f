#include "server/model_service.h"

#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "tests/server/service_fixture.h"

namespace tenure {
namespace {

class ModelServiceTest : public ServiceTest {
 protected:
  std::string LoadReason(const v1::LoadModelRequest& request) {
    v1::LoadModelResponse response;
    return ReasonOf(models_->LoadModel(Call().get(), request, &response));
  }
};

TEST_F(ModelServiceTest, AModelIsLoadedSeenAndUnloaded) {
  const v1::LoadModelResponse loaded = Load(RequestFor("a", KiB(20), 1));
  EXPECT_EQ(loaded.reuse(), v1::REUSE_FRESH);
  EXPECT_EQ(loaded.bytes_copied(), KiB(20).count());
  EXPECT_EQ(loaded.model().name(), "a");
  EXPECT_EQ(loaded.model().revision(), 1u);
  EXPECT_EQ(loaded.model().state(), v1::MODEL_STATE_ACTIVE);
  EXPECT_EQ(loaded.model().device(), "host:0");
  EXPECT_EQ(loaded.model().path(), directory_ / "a.safetensors");
  EXPECT_EQ(loaded.model().tensor_count(), 1u);
  EXPECT_EQ(loaded.model().tensor_bytes(), KiB(20).count());
  EXPECT_EQ(loaded.model().architecture_key().size(), 32u);
  EXPECT_EQ(loaded.model().content_id().size(), 32u);
  EXPECT_FALSE(loaded.has_lease());
  EXPECT_EQ(Load(RequestFor("a", KiB(20), 1)).reuse(), v1::REUSE_FRESH)
      << "the file was written anew";

  v1::GetModelRequest get;
  get.set_name("a");
  v1::Model model;
  EXPECT_TRUE(models_->GetModel(Call().get(), get, &model).ok());
  EXPECT_EQ(model.state(), v1::MODEL_STATE_ACTIVE);

  const v1::UnloadModelResponse unloaded = Unload("a");
  EXPECT_EQ(unloaded.state(), v1::MODEL_STATE_RETAINED);
  EXPECT_EQ(unloaded.retained_bytes(), loaded.model().region_bytes());
}

TEST_F(ModelServiceTest, ALeaseComesWithTheReplyIfAskedFor) {
  v1::LoadModelRequest request = RequestFor("a", KiB(20), 1);
  request.set_acquire(true);
  request.mutable_lease_ttl()->set_seconds(7);
  const v1::LoadModelResponse loaded = Load(request);
  EXPECT_EQ(loaded.lease().name(), "a");
  EXPECT_EQ(loaded.lease().ttl().seconds(), 7);
  EXPECT_EQ(loaded.lease().region_id(), loaded.model().region_id());
  EXPECT_EQ(loaded.lease().segment_count(), 2u);
  ASSERT_EQ(loaded.model().holders_size(), 1);
  EXPECT_EQ(loaded.model().holders(0).program(), "tester");
  EXPECT_EQ(LiveLeases(), 1u);
}

TEST_F(ModelServiceTest, OnlyValidatingTakesNoMemory) {
  v1::LoadModelRequest request = RequestFor("a", KiB(20), 1);
  request.set_validate_only(true);
  const v1::LoadModelResponse checked = Load(request);
  EXPECT_EQ(checked.reuse(), v1::REUSE_UNSPECIFIED);
  EXPECT_EQ(checked.model().state(), v1::MODEL_STATE_UNSPECIFIED);
  EXPECT_EQ(checked.model().revision(), 0u);
  EXPECT_EQ(checked.model().tensor_bytes(), KiB(20).count());
  EXPECT_EQ(store_->devices()[0]->TakeSnapshot().ledger.reserved, Bytes(0));
  request.set_acquire(true);
  EXPECT_EQ(LoadReason(request), "INVALID_REQUEST");
}

TEST_F(ModelServiceTest, RequestsThatMakeNoSenseAreRefused) {
  const v1::LoadModelRequest good = RequestFor("a", KiB(4), 1);
  const auto refused = [&](auto change) {
    v1::LoadModelRequest request = good;
    change(request);
    EXPECT_EQ(LoadReason(request), "INVALID_REQUEST") << request.ShortDebugString();
  };
  refused([](auto& r) { r.set_name(""); });
  refused([](auto& r) { r.set_name("a b"); });
  refused([](auto& r) { r.set_name(std::string(129, 'a')); });
  refused([](auto& r) { r.set_request_id(std::string(65, 'r')); });
  refused([](auto& r) { r.mutable_lease_ttl()->set_nanos(99'999'999); });
  refused([](auto& r) { r.mutable_lease_ttl()->set_seconds(-1); });
  refused([](auto& r) { r.mutable_lease_ttl()->set_seconds(86401); });
  refused([](auto& r) { r.mutable_lease_ttl()->set_seconds(INT64_MAX); });
  refused([](auto& r) { r.mutable_retain_ttl()->set_seconds(-5); });
  refused([](auto& r) { r.mutable_retain_ttl()->set_nanos(1'000'000'000); });
  refused([](auto& r) { r.mutable_retain_ttl()->set_seconds(INT64_MAX); });
  refused([](auto& r) { r.set_retain_forever(false); });
  EXPECT_EQ(LoadReason(good), "OK");
}

TEST_F(ModelServiceTest, WhatIsNotThereIsNamedSo) {
  v1::LoadModelRequest request = RequestFor("a", KiB(4), 1);
  request.set_path("models/none.safetensors");
  EXPECT_EQ(LoadReason(request), "FILE_NOT_FOUND");
  request.set_device("host:7");
  EXPECT_EQ(LoadReason(request), "DEVICE_NOT_FOUND");
  v1::GetModelRequest get;
  get.set_name("a");
  v1::Model model;
  EXPECT_EQ(ReasonOf(models_->GetModel(Call().get(), get, &model)), "MODEL_NOT_FOUND");
  get.set_name("-");
  EXPECT_EQ(ReasonOf(models_->GetModel(Call().get(), get, &model)), "INVALID_REQUEST");
}

TEST_F(ModelServiceTest, ALoadEndsWithItsCallersDeadline) {
  const v1::LoadModelRequest request = RequestFor("a", KiB(20), 1);
  files_.Hold("a.safetensors");
  const auto context = Call();
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  v1::LoadModelResponse response;
  EXPECT_EQ(models_->LoadModel(context.get(), request, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  // The daemon's own view of the deadline may come a little later.
  EXPECT_TRUE(Comes([&] {
    const Status acquired = store_->Acquire(SessionId(1), "a", "", std::nullopt, "").status();
    return !HasReason(acquired, Reason::kModelUnavailable);
  }));
  files_.Release();
  EXPECT_TRUE(Comes([&] { return store_->Models().empty(); }));
}

TEST_F(ModelServiceTest, AFileSystemThatHangsWhileAModelIsOpenedDelaysNobodyElse) {
  std::vector<TensorSpec> specs;  // so many that the gate takes their header for a payload
  for (int i = 0; i < 20; ++i) {
    specs.push_back({.name = "t" + std::to_string(i), .dtype = DType::kU8, .shape = {4}});
  }
  WriteSafetensors(directory_ / "hung.safetensors", specs, 1);
  v1::LoadModelRequest hung;
  hung.set_name("hung");
  hung.set_path("models/hung.safetensors");
  files_.Hold("hung.safetensors");
  const auto context = Call();
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  v1::LoadModelResponse response;
  EXPECT_EQ(models_->LoadModel(context.get(), hung, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  files_.AwaitHeldRead();

  Load(RequestFor("a", KiB(20), 1));
  v1::GetStatusResponse status;
  EXPECT_TRUE(admin_->GetStatus(Call().get(), {}, &status).ok());
  Unload("a");
}

TEST_F(ModelServiceTest, ALeaseThatNobodyWaitsForAnyMoreIsReleased) {
  v1::LoadModelRequest request = RequestFor("a", KiB(20), 1);
  request.set_acquire(true);
  files_.Hold("a.safetensors");
  const auto context = Call();
  std::future<grpc::Status> call = std::async(std::launch::async, [&] {
    v1::LoadModelResponse response;
    return models_->LoadModel(context.get(), request, &response);
  });
  files_.AwaitHeldRead();
  context->TryCancel();
  EXPECT_EQ(call.get().error_code(), grpc::StatusCode::CANCELLED);
  // Nobody waits once the server has heard of it: then there is no load under way to wait for
  // either.
  EXPECT_TRUE(Comes([&] {
    return HasReason(store_->Acquire(SessionId(1), "a", "", {}, "").status(),
                     Reason::kModelNotFound);
  }));
  files_.Release();
  store_->devices()[0]->WaitUntilQuiet();
  EXPECT_TRUE(Comes([&] { return LiveLeases() == 0; }));
}

TEST_F(ModelServiceTest, NoLoadIsTakenOnceTheDaemonStops) {
  gate_->CloseForLoads();
  EXPECT_EQ(LoadReason(RequestFor("a", KiB(4), 1)), "SHUTTING_DOWN");
}

TEST_F(ModelServiceTest, ModelsComeInPagesInOrder) {
  for (const char* name : {"c", "a", "e", "b", "d"}) Load(RequestFor(name, KiB(4), 1));
  std::vector<std::string> names;
  v1::ListModelsRequest request;
  request.set_page_size(2);
  do {
    v1::ListModelsResponse page;
    ASSERT_EQ(ReasonOf(models_->ListModels(Call().get(), request, &page)), "OK");
    EXPECT_LE(page.models_size(), 2);
    for (const v1::Model& model : page.models()) names.push_back(model.name());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(names, testing::ElementsAre("a", "b", "c", "d", "e"));
}

TEST_F(ModelServiceTest, TensorsComeInPagesOfOneArchitecture) {
  std::vector<TensorSpec> specs;
  specs.reserve(250);
  for (int i = 0; i < 250; ++i) {
    specs.push_back(
        {.name = "t" + std::to_string(1000 + i), .dtype = DType::kBF16, .shape = {2, 3}});
  }
  WriteSafetensors(directory_ / "many.safetensors", specs, 1);
  v1::LoadModelRequest load;
  load.set_name("many");
  load.set_path("models/many.safetensors");
  Load(load);

  std::set<std::string> names;
  v1::ListTensorsRequest request;
  request.set_name("many");
  request.set_page_size(100);
  std::string second_page;
  do {
    v1::ListTensorsResponse page;
    ASSERT_EQ(ReasonOf(models_->ListTensors(Call().get(), request, &page)), "OK");
    EXPECT_EQ(page.tensor_count(), 250u);
    EXPECT_EQ(page.alignment(), 256u);
    for (const v1::Tensor& tensor : page.tensors()) {
      names.insert(tensor.name());
      EXPECT_EQ(tensor.dtype(), "BF16");
      EXPECT_EQ(tensor.shape_size(), 2);
      EXPECT_EQ(tensor.size(), 12u);
      EXPECT_EQ(tensor.offset() % 256, 0u);
    }
    request.set_page_token(page.next_page_token());
    if (second_page.empty()) second_page = page.next_page_token();
  } while (!request.page_token().empty());
  EXPECT_EQ(names.size(), 250u);

  Load(RequestFor("other", KiB(4), 1));
  request.set_name("other");
  request.set_page_token(second_page);
  v1::ListTensorsResponse page;
  EXPECT_EQ(ReasonOf(models_->ListTensors(Call().get(), request, &page)), "INVALID_REQUEST");
}

TEST_F(ModelServiceTest, PageTokensThatNobodyGaveAreRefused) {
  Load(RequestFor("a", KiB(4), 1));
  for (const char* token : {"x", "AAAA", "!!!!", "MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="}) {
    v1::ListModelsRequest models;
    models.set_page_token(token);
    v1::ListModelsResponse models_page;
    EXPECT_EQ(ReasonOf(models_->ListModels(Call().get(), models, &models_page)), "INVALID_REQUEST");
    v1::ListTensorsRequest tensors;
    tensors.set_name("a");
    tensors.set_page_token(token);
    v1::ListTensorsResponse tensors_page;
    EXPECT_EQ(ReasonOf(models_->ListTensors(Call().get(), tensors, &tensors_page)),
              "INVALID_REQUEST");
  }
  v1::ListModelsRequest negative;
  negative.set_page_size(-1);
  v1::ListModelsResponse page;
  EXPECT_EQ(ReasonOf(models_->ListModels(Call().get(), negative, &page)), "INVALID_REQUEST");
}

}  // namespace
}  // namespace tenure
